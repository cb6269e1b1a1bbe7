import { LockError } from "../../../core/contract/errors.ts";
import type { Problem } from "../../shared/problem.ts";

/** A response as API Gateway, a function URL or a load balancer expects it. */
export interface LambdaResponse {
  /** The HTTP status. */
  statusCode: number;
  /** The headers. */
  headers: Record<string, string>;
  /** The headers as lists, for a load balancer with multi-value headers enabled. */
  multiValueHeaders?: Record<string, string[]>;
  /** The body, in JSON. */
  body: string;
  /** Always false: the body is text. */
  isBase64Encoded: boolean;
}

/**
 * Why an invocation should be retried:
 * - `"busy"`: another invocation holds the lock;
 * - `"unavailable"`: the lock service is out of reach;
 * - `"lease-lost"`: the lease was lost while the handler ran, which may have done its work or not;
 * - `"too-little-time"`: too little time was left to hold the lock safely.
 */
export type RetryReason = "busy" | "unavailable" | "lease-lost" | "too-little-time";

const REASONS: Record<RetryReason, string> = {
  "busy": "somebody else holds it; retry later",
  "unavailable": "the lock service cannot be reached; retry later",
  "lease-lost": "the lease was lost while the handler ran; check what it has done before a retry",
  "too-little-time":
    "if the invocation were killed now, the lock would stay held after its timeout; " +
    "raise the timeout or lower the lock's TTL",
};

/**
 * An invocation that is not an HTTP request could not run under its lock, or has lost it. Lambda, SQS
 * and Step Functions retry an invocation that throws.
 *
 * @example Usage
 * ```ts
 * import { RetryableLockError } from "@holdfast/lock/http/lambda";
 * import { assertEquals } from "@std/assert";
 *
 * const error = new RetryableLockError("busy", "orders:42", 1_500);
 * assertEquals([error.retryable, error.reason, error.retryAfterMs], [true, "busy", 1_500]);
 * ```
 */
export class RetryableLockError extends LockError {
  /** Always true, for code that decides on a retry. */
  readonly retryable = true;
  /** Why the invocation should be retried. */
  readonly reason: RetryReason;
  /** How long in ms to wait before the retry, if that is known. */
  readonly retryAfterMs: number | undefined;
  /** The name of the class. */
  override readonly name = "RetryableLockError";

  /**
   * Creates an error.
   *
   * @param retryAfterMs How long in ms to wait before the retry, if that is known.
   * @param options As for `Error`. The message of `cause` becomes part of the message.
   */
  constructor(
    reason: RetryReason,
    lockName: string,
    retryAfterMs?: number,
    options?: ErrorOptions,
  ) {
    const cause = options?.cause instanceof Error ? ` (${options.cause.message})` : "";
    const name = JSON.stringify(lockName);
    super(`Cannot run under the lock ${name}: ${REASONS[reason]}${cause}`, lockName, options);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Ends an invocation that has not run the handler, or has lost its lease.
 *
 * @returns The response, if the event is an HTTP request.
 * @throws {RetryableLockError} If the event is not an HTTP request.
 * @throws {RangeError} If the event is not an HTTP request and cannot be locked at all: retries do not help.
 */
export function endWithProblem(
  event: unknown,
  lockName: string,
  { kind, status, headers, body, retryAfterMs }: Problem,
  cause?: unknown,
): LambdaResponse {
  if (isHttpEvent(event)) {
    const response = { statusCode: status, headers: { ...headers }, body, isBase64Encoded: false };
    // A load balancer that sends multi-value headers ignores any other headers in the response.
    const isMultiValue = event.multiValueHeaders !== undefined && event.headers === undefined;
    if (!isMultiValue) return response;
    const lists = Object.entries(headers).map(([name, value]) => [name, [value]]);
    return { ...response, multiValueHeaders: Object.fromEntries(lists) };
  }
  if (!(kind in REASONS)) {
    const why = cause instanceof Error ? ` (${cause.message})` : "";
    throw new RangeError(`Cannot lock the key of this event, and a retry does not help${why}`, {
      cause,
    });
  }
  throw new RetryableLockError(
    kind as RetryReason,
    lockName,
    retryAfterMs,
    cause === undefined ? {} : { cause },
  );
}

/** Whether an event is an HTTP request: from API Gateway (1.0, 2.0), a function URL or a load balancer. */
function isHttpEvent(event: unknown): event is { headers?: unknown; multiValueHeaders?: unknown } {
  const { requestContext, httpMethod } = Object(event) as Record<string, unknown>;
  if (typeof requestContext !== "object" || requestContext === null) return false;
  return typeof httpMethod === "string" ||
    (requestContext as { http?: unknown }).http !== undefined;
}
