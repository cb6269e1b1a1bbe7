/**
 * How a request to ZooKeeper can fail, and what each failure means for the call that sent it.
 *
 * @module
 */
import type { Failure } from "../../core/time/outage_budget.ts";
import { ConnectError } from "./connect_error.ts";
import { ProtocolError } from "./wire.ts";

/** Why a request failed. */
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
  /** No server can be connected to before somebody changes a setting, a permission or a certificate. */
  | "SETUP"
  /** A quota does not permit the request, until something below its znode is deleted. */
  | "QUOTA_EXCEEDED"
  /** The server has too many requests, and has not executed this one. */
  | "THROTTLED"
  /** The server has lost its quorum and answers reads only. */
  | "READ_ONLY"
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
  "QUOTA_EXCEEDED",
  "THROTTLED",
  "READ_ONLY",
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
  "QUOTA_EXCEEDED",
  "THROTTLED",
  "READ_ONLY",
  "REFUSED",
]);

/** Failures that a retry in the same session cannot fix: the caller starts over. */
const RESTART: ReadonlySet<ZooKeeperErrorCode> = new Set(["SESSION_OVER", "OWN_ZNODE_GONE"]);

/** The error of a request that failed. */
export class ZooKeeperError extends Error {
  /** The name of the class. */
  override readonly name = "ZooKeeperError";
  /** Why the request failed. */
  readonly code: ZooKeeperErrorCode;

  /**
   * Creates an error.
   *
   * @param code Why the request failed.
   * @param message The same in words. Never holds credentials.
   * @param options The options of `Error`; `cause` is the socket's error if no connection could be made.
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
 * The codes of
 * https://zookeeper.apache.org/doc/current/apidocs/zookeeper-server/org/apache/zookeeper/KeeperException.Code.html
 */
const CODES: Readonly<Record<number, ZooKeeperErrorCode>> = {
  [-101]: "NO_NODE",
  [-102]: "NO_AUTH",
  [-110]: "NODE_EXISTS",
  [-111]: "NOT_EMPTY",
  [-112]: "SESSION_OVER",
  [-115]: "AUTH_FAILED",
  // "Session moved": another connection has taken over the session, so this one is useless.
  [-118]: "CONNECTION_LOSS",
  [-119]: "READ_ONLY",
  [-125]: "QUOTA_EXCEEDED",
  [-127]: "THROTTLED",
};

/** Returns the error for the code of a reply. */
export function refusalOf(code: number): ZooKeeperError {
  const name = CODES[code] ?? "REFUSED";
  return new ZooKeeperError(name, `ZooKeeper answered ${CODES[code] ?? "with error"} (${code})`);
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

/** The reasons in error messages: what is wrong, and what to check. Other codes show their message. */
const REASONS: Readonly<Partial<Record<ZooKeeperErrorCode, string>>> = {
  NOT_CONNECTED: "there is no connection (NOT_CONNECTED). Is the server running?",
  CONNECTION_LOSS: "the connection was lost (CONNECTION_LOSS). Is the server running?",
  TIMEOUT: "it does not answer in time (TIMEOUT). Is the server running, and in a quorum?",
  SESSION_OVER: "the session has ended (SESSION_OVER)",
  OWN_ZNODE_GONE: "another client has deleted our znode (OWN_ZNODE_GONE)",
  QUOTA_EXCEEDED: "a quota is exceeded (QUOTA_EXCEEDED)",
  THROTTLED: "it has too many requests (THROTTLED)",
  READ_ONLY: "it has lost its quorum and answers reads only (READ_ONLY)",
  NO_AUTH: "it denies access (NO_AUTH). Do all clients of these locks have the same 'auth'?",
  AUTH_FAILED: "it refuses the credentials (AUTH_FAILED). Check 'auth'",
};

/**
 * Classifies the failure of a request for an `OutageBudget`. The reason names the cause that is known:
 * the socket's error if no connection could be made, otherwise the code of the failure.
 *
 * @param error Any error; all but a {@linkcode ZooKeeperError} are `"foreign"`.
 */
export function classifyFailure(error: unknown): Failure {
  if (!(error instanceof ZooKeeperError)) return { kind: "foreign", endsOutage: false, reason: "" };
  const { code, isAnswer, isTransient, message } = error;
  const known = REASONS[code] ?? `it refuses (${code}): ${message}`;
  if (code === "SETUP") {
    const reason = connectReason(error.cause) ?? known;
    return { kind: "refused", endsOutage: false, reason, isRefusal: false };
  }
  if (!isTransient) return { kind: "refused", endsOutage: isAnswer, reason: known };
  // The server answers, but is of no use yet: that is an outage, too.
  if (isAnswer) return { kind: "retry", endsOutage: false, isRefusal: true, reason: known };
  const kind = RESTART.has(code) ? "restart" : "retry";
  return { kind, endsOutage: false, reason: connectReason(error.cause) ?? known };
}

/** The reason for an error of a connection; `undefined` for any other error. */
function connectReason(cause: unknown): string | undefined {
  if (cause instanceof ConnectError) return cause.message;
  if (cause instanceof ProtocolError) return `its answer cannot be read. ${cause.message}`;
  const code = cause instanceof Error ? (cause as Error & { code?: unknown }).code : undefined;
  if (typeof code !== "string") return undefined;
  return `the connection was lost (${code}). Is the server running?`;
}
