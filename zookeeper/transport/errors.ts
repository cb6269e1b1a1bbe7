/**
 * How a request to ZooKeeper can fail, and what each failure means for the call that sent it.
 *
 * @module
 */
import type { Failure } from "../../core/outage_budget.ts";

/** The causes for which a request fails. */
export type ZooKeeperErrorCode =
  /** The znode, or the parent of a znode to be created, does not exist. */
  | "NO_NODE"
  | "NODE_EXISTS"
  /** The znode has children. */
  | "NOT_EMPTY"
  /** Our credentials do not permit the request. */
  | "NO_AUTH"
  /** The server refused our credentials. */
  | "AUTH_FAILED"
  /** The server refused the request for another reason. */
  | "REFUSED"
  /** There is no connection, so the request was not sent. */
  | "NOT_CONNECTED"
  /** The connection was lost before the answer: the request may have been executed. */
  | "CONNECTION_LOSS"
  /** There was no answer in time: the request may have been executed, or may be executed later. */
  | "TIMEOUT"
  /** The session has ended. The server deletes its ephemeral znodes, now or soon. */
  | "SESSION_OVER"
  /** Our znode in a lock's queue is missing, so we neither hold the lock nor wait for it. */
  | "OWN_ZNODE_GONE";

/** Failures after which the call may succeed, perhaps in a new session. */
const TRANSIENT: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "NOT_CONNECTED",
  "CONNECTION_LOSS",
  "TIMEOUT",
  "SESSION_OVER",
  "OWN_ZNODE_GONE",
]);

/** Failures after which the request may have been executed. */
const AMBIGUOUS: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "CONNECTION_LOSS",
  "TIMEOUT",
  "SESSION_OVER",
]);

/** Failures that the server itself answered with. */
const ANSWERED: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "NO_NODE",
  "NODE_EXISTS",
  "NOT_EMPTY",
  "NO_AUTH",
  "REFUSED",
]);

/** Failures that a retry in the same session cannot fix: the caller starts over. */
const RESTART: ReadonlySet<ZooKeeperErrorCode> = new Set(["SESSION_OVER", "OWN_ZNODE_GONE"]);

/** The error of a request that failed. */
export class ZooKeeperError extends Error {
  /** The name of the class. */
  override readonly name = "ZooKeeperError";
  /** The cause of the failure. */
  readonly code: ZooKeeperErrorCode;

  /**
   * Creates an error.
   *
   * @param code The cause of the failure.
   * @param message The cause of the failure, for people.
   * @param options As for `Error`.
   */
  constructor(code: ZooKeeperErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** Whether a later attempt may succeed, perhaps in a new session. */
  get isTransient(): boolean {
    return TRANSIENT.has(this.code);
  }

  /** Whether the request may have been executed, or may be executed later. */
  get isAmbiguous(): boolean {
    return AMBIGUOUS.has(this.code);
  }

  /** Whether the server answered the request, which shows that the server is alive. */
  get isAnswer(): boolean {
    return ANSWERED.has(this.code);
  }
}

/**
 * Tells whether an error is a {@linkcode ZooKeeperError} with the given code.
 *
 * @param error Any error.
 * @param code The code.
 */
export function hasCode(error: unknown, code: ZooKeeperErrorCode): boolean {
  return error instanceof ZooKeeperError && error.code === code;
}

/** Classifies the failure of a request for an `OutageBudget`. */
export function classifyFailure(error: unknown): Failure {
  if (!(error instanceof ZooKeeperError)) return { kind: "foreign", endsOutage: false, reason: "" };
  const { code, isAnswer: endsOutage, isTransient } = error;
  if (!isTransient) return { kind: "refused", endsOutage, reason: `it refuses (${code})` };
  const kind = RESTART.has(code) ? "restart" : "retry";
  return { kind, endsOutage, reason: `it does not answer in time (${code})` };
}
