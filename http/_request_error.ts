/**
 * What a client did wrong.
 *
 * @module
 */
import { type Problem, problem, type ProblemKind } from "./problem.ts";

/** Ends a request with a problem. */
export class RequestError extends Error {
  /** What the client is told. */
  readonly problem: Problem;

  constructor(kind: ProblemKind, status: number, title: string, detail: string) {
    super(detail);
    this.problem = problem(kind, { status, title, detail });
  }
}

/** A request that is not as it should be. */
export function badRequest(detail: string): RequestError {
  return new RequestError("bad-request", 400, "Bad request", detail);
}

/** An error that names the status of its response, below 500: meant for the client. */
export function isHttpError(error: unknown): error is Error & { statusCode: number } {
  if (!(error instanceof Error)) return false;
  const { statusCode } = error as { statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
}
