/**
 * Ends an invocation that could not run under its lock: a response for HTTP events, an error for
 * others.
 *
 * @module
 */
import { LockError } from "../../core/errors.ts";
import type { Problem } from "./problem.ts";

/** A response for API Gateway, a function URL or a load balancer. */
export interface LambdaResponse {
  /** The status. */
  statusCode: number;
  /** The headers. */
  headers: Record<string, string>;
  /** The headers again, for a load balancer that is set to several values per header. */
  multiValueHeaders?: Record<string, string[]>;
  /** The body, in JSON. */
  body: string;
  /** Always false: the body is text. */
  isBase64Encoded: boolean;
}

/** Why an invocation should be tried again. */
export type RetryReason = "busy" | "unavailable" | "lease-lost" | "too-little-time";

const REASONS: Record<RetryReason, string> = {
  "busy": "somebody else holds the lock",
  "unavailable": "the lock service does not answer",
  "lease-lost": "the lease was lost",
  "too-little-time": "the lock would outlive the invocation if it were killed",
};

/**
 * An invocation without an HTTP response could not run under its lock. Lambda, SQS and Step Functions
 * retry an invocation that throws.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { lambdaLock, RetryableLockError } from "@holdfast/lock/http/lambda";
 * import { assertEquals, assertRejects } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const handler = lambdaLock(locks, { key: "nightly-report" })(() => "done");
 * const context = { getRemainingTimeInMillis: () => 3_000 };
 *
 * await using _lease = await locks.acquire("nightly-report");
 * const error = await assertRejects(() => handler({}, context), RetryableLockError);
 * assertEquals(error.reason, "busy");
 * ```
 */
export class RetryableLockError extends LockError {
  /** Always true, for code that decides on a retry. */
  readonly retryable = true;
  /** The reason. */
  readonly reason: RetryReason;
  /** After how many ms it makes sense to try again, if that is known. */
  readonly retryAfterMs: number | undefined;
  /** The name of the class. */
  override readonly name = "RetryableLockError";

  /**
   * Creates an error.
   *
   * @param reason The reason.
   * @param lockName The name of the lock.
   * @param retryAfterMs After how many ms it makes sense to try again.
   * @param options As for `Error`.
   */
  constructor(
    reason: RetryReason,
    lockName: string,
    retryAfterMs?: number,
    options?: ErrorOptions,
  ) {
    super(`Cannot do the invocation now: ${REASONS[reason]}`, lockName, options);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Ends an invocation that has not run the handler, or has lost its lease.
 *
 * @returns The response for an event that wants one.
 * @throws {RetryableLockError} If the event does not want an HTTP response.
 * @throws {RangeError} If it does not, and no lock can have its key: a retry does not help.
 */
export function endWithProblem(
  event: unknown,
  lockName: string,
  { kind, status, headers, body, retryAfterMs }: Problem,
  cause?: unknown,
): LambdaResponse {
  if (isHttpEvent(event)) {
    const response = { statusCode: status, headers: { ...headers }, body, isBase64Encoded: false };
    return hasManyValues(event)
      ? { ...response, multiValueHeaders: manyValues(headers) }
      : response;
  }
  if (kind === "bad-request") {
    throw new RangeError("Cannot use the key of this event for a lock", { cause });
  }
  throw new RetryableLockError(
    kind as RetryReason,
    lockName,
    retryAfterMs,
    cause === undefined ? {} : { cause },
  );
}

/** The parts of an event that show whether it wants an HTTP response. */
interface HttpEvent {
  readonly requestContext?: { readonly http?: unknown } | null;
  readonly httpMethod?: unknown;
  readonly headers?: unknown;
  readonly multiValueHeaders?: unknown;
}

/**
 * Whether an event wants an HTTP response: API Gateway (1.0, 2.0), a function URL, a load balancer.
 */
function isHttpEvent(event: unknown): event is HttpEvent {
  if (typeof event !== "object" || event === null) return false;
  const { requestContext, httpMethod } = event as HttpEvent;
  if (typeof requestContext !== "object" || requestContext === null) return false;
  return typeof httpMethod === "string" || requestContext.http !== undefined;
}

/** A load balancer that sends lists of values accepts nothing else. */
function hasManyValues({ headers, multiValueHeaders }: HttpEvent): boolean {
  return multiValueHeaders !== undefined && headers === undefined;
}

function manyValues(headers: Readonly<Record<string, string>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
}
