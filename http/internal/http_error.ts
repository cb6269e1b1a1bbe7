/**
 * Errors that a hook of the user throws for the client to see, and their problems. All other errors of
 * a hook are bugs: the framework answers 500.
 *
 * @module
 */
import { badSpelling, type Problem, problem, type ProblemKind } from "./problem.ts";

/** An error with a status from 400 to 499: it is meant for the client. */
export interface HttpError extends Error {
  /** The status of the response. */
  readonly statusCode: number;
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Whether an error is meant for the client. */
export function isHttpError(error: unknown): error is HttpError {
  if (!(error instanceof Error)) return false;
  const { statusCode } = error as { statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
}

/**
 * Returns the problem for an error that a function of the user throws because of the request, or `null`
 * if the error is a bug. A `URIError` is the client's fault: its URL cannot be decoded.
 */
export function refusalOf(error: unknown): Problem | null {
  if (error instanceof URIError) return badSpelling();
  return isHttpError(error) ? httpProblem(error) : null;
}

/** The kinds of the problems of some statuses; `"bad-request"` is that of the others. */
const KINDS: Readonly<Record<number, ProblemKind>> = {
  401: "forbidden",
  403: "forbidden",
  404: "not-found",
  405: "method-not-allowed",
};

/** Returns the problem for such an error: it shows the error's message and sends its headers. */
export function httpProblem({ statusCode: status, message: detail, headers }: HttpError): Problem {
  const base = problem(KINDS[status] ?? "bad-request", {
    status,
    title: "Request refused",
    detail,
  });
  return { ...base, headers: { ...headers, ...base.headers } };
}
