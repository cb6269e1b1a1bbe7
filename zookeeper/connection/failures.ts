import type { Failure } from "../../core/time/outage_budget.ts";
import { ConnectError } from "./connect_error.ts";
import { ProtocolError } from "./wire.ts";

const MEANINGS = {
  /** The znode, or the parent of a znode to be created, does not exist. */
  NO_NODE: { isAnswer: true },
  NODE_EXISTS: { isAnswer: true },
  NOT_EMPTY: { isAnswer: true },
  NO_AUTH: {
    isAnswer: true,
    reason: "it denies access (NO_AUTH). Do all clients of these locks have the same 'auth'?",
  },
  AUTH_FAILED: { reason: "it refuses the credentials (AUTH_FAILED). Check 'auth'" },
  /** No server can be connected to before somebody changes a setting, a permission or a certificate. */
  SETUP: {},
  /** Until something below the znode is deleted. */
  QUOTA_EXCEEDED: {
    then: "retry",
    isAnswer: true,
    reason: "a quota is exceeded (QUOTA_EXCEEDED)",
  },
  THROTTLED: { then: "retry", isAnswer: true, reason: "it has too many requests (THROTTLED)" },
  READ_ONLY: {
    then: "retry",
    isAnswer: true,
    reason: "it has lost its quorum and answers reads only (READ_ONLY)",
  },
  REFUSED: { isAnswer: true },
  NOT_CONNECTED: {
    then: "retry",
    reason: "there is no connection (NOT_CONNECTED). Is the server running?",
  },
  CONNECTION_LOSS: {
    then: "retry",
    isAmbiguous: true,
    reason: "the connection was lost (CONNECTION_LOSS). Is the server running?",
  },
  TIMEOUT: {
    then: "retry",
    isAmbiguous: true,
    reason: "it does not answer in time (TIMEOUT). Is the server running, and in a quorum?",
  },
  /** The server deletes the ephemeral znodes of the session once that has expired there, too. */
  SESSION_OVER: {
    then: "restart",
    isAmbiguous: true,
    reason: "the session has ended (SESSION_OVER)",
  },
  /** Our znode in a lock's queue is missing, so we neither hold the lock nor wait for it. */
  OWN_ZNODE_GONE: {
    then: "restart",
    reason: "another client has deleted our znode (OWN_ZNODE_GONE)",
  },
} satisfies Record<string, ZooKeeperError["meaning"]>;

export class ZooKeeperError extends Error {
  override readonly name = "ZooKeeperError";
  readonly code: keyof typeof MEANINGS;
  /** What the failure means for the call that sent the request. */
  readonly meaning: {
    /** How the call goes on: the same request may succeed later, or the call starts over. Else it fails. */
    readonly then?: "retry" | "restart";
    /** Whether the server itself answered, which shows that it is alive. */
    readonly isAnswer?: true;
    /** Whether the request may have been executed, or may be executed later. */
    readonly isAmbiguous?: true;
    /** What is wrong, and what to check: the end of an error message. By default it shows the failure's own. */
    readonly reason?: string;
  };

  /**
   * @param message The code in words. Never holds credentials.
   * @param options Its `cause` is the socket's error if no connection could be made.
   */
  constructor(code: ZooKeeperError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.meaning = MEANINGS[code];
  }
}

/**
 * The codes of
 * https://zookeeper.apache.org/doc/current/apidocs/zookeeper-server/org/apache/zookeeper/KeeperException.Code.html
 */
const CODES: Readonly<Record<number, ZooKeeperError["code"]>> = {
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

export function refusalOf(code: number): ZooKeeperError {
  const name = CODES[code] ?? "REFUSED";
  return new ZooKeeperError(name, `ZooKeeper answered ${CODES[code] ?? "with error"} (${code})`);
}

export function hasCode(error: unknown, code: ZooKeeperError["code"]): boolean {
  return error instanceof ZooKeeperError && error.code === code;
}

/** Returns `null` for the failure of a read of a missing znode. Throws any other error. */
export function nullIfMissing(error: unknown): null {
  if (hasCode(error, "NO_NODE")) return null;
  throw error;
}

/**
 * Classifies a failure for an `OutageBudget`. The reason names the socket's error if no connection could be made,
 * otherwise the code of the failure.
 */
export function classifyFailure(error: unknown): Failure {
  if (!(error instanceof ZooKeeperError)) return { kind: "foreign", endsOutage: false, reason: "" };
  const { code, message, meaning: { then: kind, isAnswer = false, reason: ownReason } } = error;
  const known = ownReason ?? `it refuses (${code}): ${message}`;
  if (code === "SETUP") {
    const reason = connectReason(error.cause) ?? known;
    return { kind: "refused", endsOutage: false, reason, isRefusal: false };
  }
  if (kind === undefined) return { kind: "refused", endsOutage: isAnswer, reason: known };
  // The server answers, but is of no use yet: that is an outage, too.
  if (isAnswer) return { kind, endsOutage: false, isRefusal: true, reason: known };
  const reason = connectReason(error.cause);
  if (reason !== undefined) return { kind, endsOutage: false, reason };
  return { kind, endsOutage: false, isVague: true, reason: known };
}

/** `undefined` for an error that is not that of a connection. */
function connectReason(cause: unknown): string | undefined {
  if (cause instanceof ConnectError) return cause.message;
  if (cause instanceof ProtocolError) return `its answer cannot be read. ${cause.message}`;
  const code = cause instanceof Error ? (cause as Error & { code?: unknown }).code : undefined;
  if (typeof code !== "string") return undefined;
  return `the connection was lost (${code}). Is the server running?`;
}
