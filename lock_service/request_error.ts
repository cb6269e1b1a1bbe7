/**
 * Errors of the lock service's requests, and the problem that a client gets for each error.
 *
 * @module
 */
import { isUnavailable } from "../http/internal/acquire.ts";
import {
  type Problem,
  problem,
  type ProblemDetails,
  type ProblemKind,
} from "../http/internal/problem.ts";

/** Additions to the headers and the body of a problem. */
export interface Additions {
  /** More headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** More members of its body; what is undefined is left out. */
  readonly members?: Readonly<Record<string, unknown>>;
}

/** Ends a request with a problem. */
export class RequestError extends Error {
  /** The response. */
  readonly problem: Problem;

  constructor(kind: ProblemKind, details: ProblemDetails, additions?: Additions, cause?: unknown) {
    super(details.detail ?? details.title, { cause });
    this.problem = extend(problem(kind, details), additions);
  }
}

function extend(base: Problem, { headers, members }: Additions = {}): Problem {
  const body = members === undefined
    ? base.body
    : JSON.stringify({ ...JSON.parse(base.body), ...members });
  return { ...base, headers: { ...headers, ...base.headers }, body };
}

/** A request that is wrong. */
export function badRequest(detail: string): RequestError {
  return new RequestError("bad-request", { status: 400, title: "Bad request", detail });
}

/**
 * It is not known whether the request was executed. (A request in front of a handler was not.)
 *
 * @param cause Why, for the logs.
 */
export function unknownOutcome(cause?: string): RequestError {
  const details = {
    status: 503,
    title: "Lock service unavailable",
    detail: "It is not known whether anything was done: repeat the request",
    retryAfterMs: 1_000,
  };
  return new RequestError("unavailable", details, {}, cause && new Error(cause));
}

/** An error that carries the status of its response, below 500: meant for the client. */
interface HttpError extends Error {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Whether an error is meant for the client. */
export function isHttpError(error: unknown): error is HttpError {
  if (!(error instanceof Error)) return false;
  const { statusCode } = error as { statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
}

/** The problem for an error: shows what the client did wrong, hides what failed in the server. */
export function problemOf(error: unknown, report: (error: unknown) => void): Problem {
  if (error instanceof RequestError) {
    if (error.cause) report(error.cause);
    return error.problem;
  }
  if (isHttpError(error)) return httpProblem(error);
  // The lock's own limits for keys, which may be narrower than those of a name.
  if (error instanceof RangeError) return badRequest(error.message).problem;
  report(error);
  if (isUnavailable(error)) return unknownOutcome().problem;
  return problem("internal", { status: 500, title: "Internal error" });
}

/** The problem for an error of `authorize`, of Fastify, or of other plugins' hooks. */
function httpProblem({ statusCode: status, message: detail, headers = {} }: HttpError): Problem {
  const kind = status === 401 || status === 403 ? "forbidden" : "bad-request";
  return extend(problem(kind, { status, title: "Request refused", detail }), { headers });
}
