/**
 * What a request is told when it cannot have the lock, after RFC 9457 (`application/problem+json`).
 *
 * @module
 * @see {@link https://www.rfc-editor.org/rfc/rfc9457}
 */

/** The media type of a problem. */
export const PROBLEM_TYPE = "application/problem+json";

/** What nginx answers a client that went away; nobody reads it. */
export const CLIENT_GONE = 499;

/** Headers that tell of the body that a problem takes the place of. */
export const BODY_HEADERS = [
  "content-disposition",
  "content-encoding",
  "content-length",
  "content-range",
  "etag",
  "last-modified",
] as const;

/** What can be wrong: the end of the problem's `type`. */
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

/** A problem, ready to be sent. Says nothing of owner ids, hosts or the names of locks. */
export interface Problem {
  /** What is wrong. */
  readonly kind: ProblemKind;
  /** The status of the response. */
  readonly status: number;
  /** The headers of the response, `content-type` among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The response's body, in JSON. */
  readonly body: string;
  /** After how many ms it makes sense to try again, if that is known. */
  readonly retryAfterMs?: number | undefined;
}

/** What a problem says besides its kind. */
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

/** What is said to come back after when the holder's TTL is not known, in ms. */
const UNKNOWN_TTL_MS = 1_000;

/** Somebody else holds the lock. */
export function busy(status: number, remainingMs: number | undefined): Problem {
  return problem("busy", {
    status,
    title: "Busy",
    detail: "Another request holds the lock",
    retryAfterMs: remainingMs ?? UNKNOWN_TTL_MS,
  });
}

/** The request names a lock that cannot be. */
export function badKey(): Problem {
  return problem("bad-request", {
    status: 400,
    title: "Bad request",
    detail: "The request names no lock: the name is empty, too long, or otherwise not allowed",
  });
}

/** Nothing can be known of the lock. */
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
