/**
 * Error responses as problem details: their kinds and texts, and which errors they answer. Each entry sends them in
 * its own way.
 *
 * @module
 * @see {@link https://www.rfc-editor.org/rfc/rfc9457}
 */
import { LockUnavailableError } from "../../core/contract/errors.ts";

/** The media type of problem details (RFC 9457): the `content-type` of all error responses. */
export const PROBLEM_TYPE = "application/problem+json";

/** The status for a client that has disconnected, as in nginx. It only appears in logs. */
export const CLIENT_GONE = 499;

/** Headers that describe a body: they are removed when a problem replaces that body. */
export const BODY_HEADERS = [
  "content-disposition",
  "content-encoding",
  "content-length",
  "content-range",
  "etag",
  "last-modified",
] as const;

/** A problem, ready to be sent. It never shows owner ids, hosts or the names of locks. */
export interface Problem {
  /** The last part of the problem's `type`. */
  readonly kind:
    | "busy"
    | "unavailable"
    | "lease-lost"
    | "too-little-time"
    | "bad-request"
    | "forbidden"
    | "not-held"
    | "in-progress"
    | "body-timeout"
    | "not-found"
    | "method-not-allowed"
    | "stale-token"
    | "token-required"
    | "internal";
  readonly status: number;
  /** All headers of the response, `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body, in JSON. */
  readonly body: string;
  /** How long in ms to wait before a retry, if that is known. */
  readonly retryAfterMs?: number | undefined;
}

export function problem(
  kind: Problem["kind"],
  { status, title, detail, retryAfterMs: leastMs, headers: ownHeaders, members }: {
    readonly status: number;
    readonly title: string;
    readonly detail?: string;
    /**
     * The least time in ms until a retry makes sense. With up to half of it on top, it becomes
     * `retryAfterMs` in the body, and `Retry-After` in whole seconds, at least one.
     */
    readonly retryAfterMs?: number | undefined;
    /** More headers of the response. */
    readonly headers?: Readonly<Record<string, string>> | undefined;
    /** More members of the body; `undefined` members are left out. */
    readonly members?: Readonly<Record<string, unknown>>;
  },
): Problem {
  const retry = leastMs === undefined ? null : jittered(leastMs);
  const retryAfterMs = retry?.ms;
  const body = JSON.stringify({
    type: `urn:holdfast:problem:${kind}`,
    title,
    status,
    detail,
    retryAfterMs,
    ...members,
  });
  const headers: Record<string, string> = {
    ...ownHeaders,
    "content-type": PROBLEM_TYPE,
    "cache-control": "no-store",
  };
  if (retry !== null) headers["retry-after"] = String(retry.seconds);
  return { kind, status, headers, body, retryAfterMs };
}

/** Spreads retries over half of their time: many clients that are refused at once must not return at once. */
function jittered(leastMs: number): { readonly ms: number; readonly seconds: number } {
  const ms = Math.ceil(leastMs * (1 + Math.random() / 2));
  // Rounded up or down at random: a header of whole seconds would bring them together again.
  const seconds = leastMs < 1_000 ? 1 : Math.floor(ms / 1_000 + Math.random());
  return { ms, seconds };
}

/** How long in ms to wait before a retry when it is not known how long the holder's lease lasts. */
export const UNKNOWN_TTL_MS = 1_000;

/** Another request holds the lock, for `remainingMs` more if that is known. */
export function busy(status: number, remainingMs: number | undefined): Problem {
  return problem("busy", {
    status,
    title: "Busy",
    detail: "Another request holds the lock: try again later",
    retryAfterMs: remainingMs ?? UNKNOWN_TTL_MS,
  });
}

export function badKey(): Problem {
  return problem("bad-request", {
    status: 400,
    title: "Bad request",
    detail: "No lock can have the name that this request asks for: " +
      "it is empty, longer than 1,000 characters, or not allowed",
  });
}

export function unavailable(): Problem {
  return problem("unavailable", {
    status: 503,
    title: "Lock service unavailable",
    detail: "The request was not handled, as the lock service cannot be reached: try again later",
    retryAfterMs: UNKNOWN_TTL_MS,
  });
}

export function leaseLost(): Problem {
  return problem("lease-lost", {
    status: 503,
    title: "Lease lost",
    detail: "The server lost the lock while it handled the request, which may have been done " +
      "completely, in part, or not at all: check before you repeat it",
  });
}

export function problemResponse({ status, headers, body }: Problem): Response {
  return new Response(body, { status, headers });
}

/** An error with a status from 400 to 499: a hook of the user throws it for the client to see. */
export interface HttpError extends Error {
  readonly statusCode: number;
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Whether an error is meant for the client. All other errors of a hook are bugs: a 500. */
export function isHttpError(error: unknown): error is HttpError {
  if (!(error instanceof Error)) return false;
  const { statusCode } = error as { statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
}

/** `null` if the error is a bug in the user's function. A `URIError` is the client's fault: a bad URL. */
export function refusalOf(error: unknown): Problem | null {
  if (isHttpError(error)) return httpProblem(error);
  if (!(error instanceof URIError)) return null;
  const detail = "The URL must be percent-encoded UTF-8";
  return problem("bad-request", { status: 400, title: "Bad request", detail });
}

/** The kinds of the problems of some statuses; `"bad-request"` is that of the others. */
const KINDS: Readonly<Record<number, Problem["kind"]>> = {
  401: "forbidden",
  403: "forbidden",
  404: "not-found",
  405: "method-not-allowed",
};

/** Returns the problem for such an error: it shows the error's message and sends its headers. */
export function httpProblem({ statusCode: status, message: detail, headers }: HttpError): Problem {
  const details = { status, title: "Request refused", detail, headers };
  return problem(KINDS[status] ?? "bad-request", details);
}

/** Whether an error means that nothing is known about the lock: an outage, or the end of the server. */
export function isUnavailable(error: unknown): boolean {
  return isDisposed(error) || error instanceof LockUnavailableError;
}

/** Whether an error means that the lock was disposed, before the call or during its wait. */
export function isDisposed(error: unknown): boolean {
  return error instanceof DOMException &&
    (error.name === "InvalidStateError" || error.name === "AbortError");
}
