/**
 * The errors that end a request to the lock service, and the problem that the client gets for each.
 * Their form is in `http/internal/problem.ts`.
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

/** More headers and members of a problem. */
export interface Additions {
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Additional members of the body; `undefined` members are left out. */
  readonly members?: Readonly<Record<string, unknown>>;
}

/** Throw it to end a request with a problem. */
export class RequestError extends Error {
  /** The problem that the client gets. */
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

/**
 * The request is wrong, and the client must not repeat it.
 *
 * @param detail The mistake, for the client.
 */
export function badRequest(detail: string): RequestError {
  return new RequestError("bad-request", { status: 400, title: "Bad request", detail });
}

/**
 * It is not known whether the request was executed. (In the middleware, `unavailable()` is certain that
 * the handler did not run.)
 *
 * @param cause The reason, for the logs.
 */
export function unknownOutcome(cause?: string): RequestError {
  const details = {
    status: 503,
    title: "Lock service unavailable",
    detail: "It is not known whether the request was executed: repeat it",
    retryAfterMs: 1_000,
  };
  return new RequestError("unavailable", details, {}, cause && new Error(cause));
}

/** An error with a status from 400 to 499: it is meant for the client. */
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

/** Returns the problem for an error: it shows the client's mistakes and hides the server's failures. */
export function problemOf(error: unknown, report: (error: unknown) => void): Problem {
  if (error instanceof RequestError) {
    if (error.cause) report(error.cause);
    return error.problem;
  }
  if (isHttpError(error)) return httpProblem(error);
  // The strategy may allow fewer names than the core, and rejects the others.
  if (error instanceof RangeError) return badRequest(error.message).problem;
  report(error);
  if (isUnavailable(error)) return unknownOutcome().problem;
  return problem("internal", { status: 500, title: "Internal error" });
}

/** Returns the problem for an error of `authorize`, of Fastify, or of another plugin's hook. */
function httpProblem({ statusCode: status, message: detail, headers = {} }: HttpError): Problem {
  const kind = status === 401 || status === 403 ? "forbidden" : "bad-request";
  return extend(problem(kind, { status, title: "Request refused", detail }), { headers });
}
