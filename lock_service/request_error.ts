import { LockError } from "../core/contract/errors.ts";
import {
  type HttpError,
  httpProblem,
  isHttpError,
  isUnavailable,
  type Problem,
  problem,
  UNKNOWN_TTL_MS,
} from "../http/shared/problem.ts";

/** Throw it to end a request with a problem. */
export class RequestError extends Error {
  readonly problem: Problem;

  constructor(kind: Problem["kind"], details: Parameters<typeof problem>[1], cause?: unknown) {
    super(details.detail ?? details.title, { cause });
    this.problem = problem(kind, details);
  }
}

/** The request is wrong, and the client must not repeat it. */
export function badRequest(detail: string): RequestError {
  return new RequestError("bad-request", { status: 400, title: "Bad request", detail });
}

/** It is not known whether the request was executed, unlike in `unavailable()` of `http/`. `why` is for the logs. */
export function unknownOutcome(why?: string): RequestError {
  const details = {
    status: 503,
    title: "Lock service unavailable",
    detail: "It is not known whether the request was executed: repeat it",
    retryAfterMs: 1_000,
  };
  return new RequestError("unavailable", details, why === undefined ? undefined : new Error(why));
}

/** The owner has a PUT under way that asks for something else; this one has done nothing. */
export function inProgress(
  detail = "A PUT of this id with another 'ttlMs' or 'waitMs' is under way: repeat that one",
): RequestError {
  const details = { status: 409, title: "In progress", detail, retryAfterMs: 1_000 };
  return new RequestError("in-progress", details);
}

export function bodyTimeout(maxBodyMs: number): RequestError {
  const detail = `The body must arrive within ${maxBodyMs} ms; nothing was done`;
  return new RequestError("body-timeout", { status: 408, title: "Request timeout", detail });
}

/**
 * Another owner holds the lock.
 *
 * @param holderMs How long in ms its lease still lasts, if that is known.
 * @param retryAfterMs How long in ms to wait before a retry; until that lease ends by default.
 */
export function busy(
  holderMs: number | undefined,
  retryAfterMs: number | undefined,
): RequestError {
  const remainingMs = holderMs === undefined ? undefined : Math.floor(holderMs);
  return new RequestError("busy", {
    status: 409,
    title: "Busy",
    detail: "Somebody else holds the lock: try again later, or ask with a longer 'waitMs'",
    retryAfterMs: retryAfterMs ?? remainingMs ?? UNKNOWN_TTL_MS,
    members: { remainingMs },
  });
}

/** The lock is not held by this owner: it is free, or another owner holds it. */
export function notHeld(): RequestError {
  return new RequestError("not-held", {
    status: 404,
    title: "Not held",
    detail: "The lock is not held under this id: the lease has ended, or there never was one",
  });
}

/** It is not known who sends the request: its credentials are missing or wrong. */
export function unauthorized(challenge: string): RequestError {
  const detail = "The credentials of this request are missing or wrong";
  const headers = { "www-authenticate": challenge };
  return new RequestError("forbidden", { status: 401, title: "Unauthorized", detail, headers });
}

/** Adds the header that a 401 must have, unless the hook's own error has it. */
export function challenged(error: HttpError, challenge: string): Error {
  const { statusCode: status, message: detail, headers = {} } = error;
  if (Object.keys(headers).some((name) => name.toLowerCase() === "www-authenticate")) return error;
  const more = { headers: { ...headers, "www-authenticate": challenge } };
  return new RequestError("forbidden", { status, title: "Request refused", detail, ...more });
}

/** Whether Fastify has refused the body of a request. Any other error of Fastify is not ours. */
export function isBodyError(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && code.startsWith("FST_ERR_CTP_");
}

/** Returns the problem for an error: it shows the client's mistakes and hides the server's failures. */
export function problemOf(error: unknown, report: (error: unknown) => void): Problem {
  if (error instanceof RequestError) {
    if (error.cause) report(error.cause);
    return error.problem;
  }
  if (isHttpError(error)) return httpProblem(error);
  // The strategy may allow fewer names than the core, and rejects the others.
  if (error instanceof RangeError) return badRequest(error.message).problem;
  // Of the requests of one owner only one asks Redis at a time, also if they come by several routes. And
  // after a reconnect, Redis may take a request for one that has left.
  if (error instanceof LockError && error.code === "ERR_LOCK") {
    return inProgress("The request could not be done just now: repeat it").problem;
  }
  report(error);
  if (isUnavailable(error)) return unknownOutcome().problem;
  return problem("internal", { status: 500, title: "Internal error" });
}
