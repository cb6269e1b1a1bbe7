/**
 * Responses to requests that cannot have the lock, after RFC 9457 (`application/problem+json`).
 *
 * @module
 * @see {@link https://www.rfc-editor.org/rfc/rfc9457}
 */

/** The media type of a problem. */
export const PROBLEM_TYPE = "application/problem+json";

/** The status that nginx logs for a client that went away; nobody reads it. */
export const CLIENT_GONE = 499;

/** Headers that describe the body which a problem replaces. */
export const BODY_HEADERS = [
  "content-disposition",
  "content-encoding",
  "content-length",
  "content-range",
  "etag",
  "last-modified",
] as const;

/** The kinds of problems: the end of the problem's `type`. */
export type ProblemKind =
  | "busy"
  | "unavailable"
  | "lease-lost"
  | "too-little-time"
  | "bad-request"
  | "forbidden"
  | "not-held"
  | "not-found"
  | "method-not-allowed"
  | "stale-token"
  | "token-required"
  | "internal";

/** A problem, ready to be sent. Never shows owner ids, hosts or the names of locks. */
export interface Problem {
  /** The kind of problem. */
  readonly kind: ProblemKind;
  /** The status of the response. */
  readonly status: number;
  /** The headers of the response, `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The response's body, in JSON. */
  readonly body: string;
  /** After how many ms a retry makes sense, if that is known. */
  readonly retryAfterMs?: number | undefined;
}

/** The parts of a problem besides its kind. */
export interface ProblemDetails {
  readonly status: number;
  readonly title: string;
  readonly detail?: string;
  /** Becomes `Retry-After`, in whole seconds and at least one, and `retryAfterMs` in the body. */
  readonly retryAfterMs?: number | undefined;
}

/** Makes a problem. */
export function problem(kind: ProblemKind, details: ProblemDetails): Problem {
  const { status, title, detail } = details;
  const retryAfterMs = details.retryAfterMs === undefined
    ? undefined
    : Math.ceil(details.retryAfterMs);
  const body = JSON.stringify({
    type: `urn:holdfast:problem:${kind}`,
    title,
    status,
    detail,
    retryAfterMs,
  });
  const headers: Record<string, string> = {
    "content-type": PROBLEM_TYPE,
    "cache-control": "no-store",
  };
  if (retryAfterMs !== undefined) {
    headers["retry-after"] = String(Math.max(1, Math.ceil(retryAfterMs / 1_000)));
  }
  return { kind, status, headers, body, retryAfterMs };
}

/** After how many ms to retry if the holder's TTL is not known. */
const UNKNOWN_TTL_MS = 1_000;

/** Another request holds the lock. */
export function busy(status: number, remainingMs: number | undefined): Problem {
  return problem("busy", {
    status,
    title: "Busy",
    detail: "Another request holds the lock",
    retryAfterMs: remainingMs ?? UNKNOWN_TTL_MS,
  });
}

/** No lock can have the name that the request gives. */
export function badKey(): Problem {
  return problem("bad-request", {
    status: 400,
    title: "Bad request",
    detail: "The request names no lock: the name is empty, too long, or otherwise not allowed",
  });
}

/** The lock service is out of reach. */
export function unavailable(): Problem {
  return problem("unavailable", {
    status: 503,
    title: "Lock service unavailable",
    detail: "Nothing was done, as the lock service does not answer",
    retryAfterMs: UNKNOWN_TTL_MS,
  });
}

/** The lease was lost before the request was done. */
export function leaseLost(): Problem {
  return problem("lease-lost", {
    status: 503,
    title: "Lease lost",
    detail:
      "The lock was lost while the request was handled: it may be done, in part or not at all",
  });
}

/** A problem as a response of the Fetch API. */
export function problemResponse({ status, headers, body }: Problem): Response {
  return new Response(body, { status, headers });
}
