/**
 * Errors that a hook of the user throws for the client to see, and their problems. All other errors of
 * a hook are bugs: the framework answers 500.
 *
 * @module
 */
import { type Problem, problem } from "./problem.ts";

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

/** Returns the problem for such an error: it shows the error's message and sends its headers. */
export function httpProblem({ statusCode: status, message: detail, headers }: HttpError): Problem {
  const kind = status === 401 || status === 403 ? "forbidden" : "bad-request";
  const base = problem(kind, { status, title: "Request refused", detail });
  return { ...base, headers: { ...headers, ...base.headers } };
}
