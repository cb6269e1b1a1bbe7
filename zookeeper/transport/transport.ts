/**
 * The port: the few things that the strategy needs of a ZooKeeper client. Another client goes behind
 * the same interface.
 *
 * @module
 */

import type { Failure } from "../../core/outage_budget.ts";
import type { ServerAddress } from "../paths.ts";

/** What went wrong with a request. */
export type ZooKeeperErrorCode =
  /** No such znode, or no parent for it. */
  | "NO_NODE"
  | "NODE_EXISTS"
  /** The znode has children. */
  | "NOT_EMPTY"
  /** Our credentials do not allow it. */
  | "NO_AUTH"
  /** Our credentials were refused. */
  | "AUTH_FAILED"
  /** Any other refusal of the server. */
  | "REFUSED"
  /** There is no connection, so the request was not sent. */
  | "NOT_CONNECTED"
  /** The connection was lost before the answer: the request may have been executed. */
  | "CONNECTION_LOSS"
  /** No answer in time: the request may have been executed, or may be later. */
  | "TIMEOUT"
  /** The session has ended, and with it its ephemeral znodes, now or soon. */
  | "SESSION_OVER"
  /** Our own znode is not there: whatever it stood for, we do not have it. */
  | "OWN_ZNODE_GONE";

const PASSING: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "NOT_CONNECTED",
  "CONNECTION_LOSS",
  "TIMEOUT",
  "SESSION_OVER",
  "OWN_ZNODE_GONE",
]);

const DOUBTFUL: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "CONNECTION_LOSS",
  "TIMEOUT",
  "SESSION_OVER",
]);

const ANSWERED: ReadonlySet<ZooKeeperErrorCode> = new Set([
  "NO_NODE",
  "NODE_EXISTS",
  "NOT_EMPTY",
  "NO_AUTH",
  "REFUSED",
]);

/** A request that failed. */
export class ZooKeeperError extends Error {
  /** The name of the class. */
  override readonly name = "ZooKeeperError";
  /** What went wrong. */
  readonly code: ZooKeeperErrorCode;

  /**
   * Creates an error.
   *
   * @param code What went wrong.
   * @param message The same for people.
   * @param options As for `Error`.
   */
  constructor(code: ZooKeeperErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** Whether it may work if it is tried again, perhaps in a new session. */
  get isPassing(): boolean {
    return PASSING.has(this.code);
  }

  /** Whether the request may have been executed all the same, or may be later. */
  get isDoubtful(): boolean {
    return DOUBTFUL.has(this.code);
  }

  /** Whether the server said so, and is alive. */
  get isAnswer(): boolean {
    return ANSWERED.has(this.code);
  }
}

/**
 * Whether an error is a {@linkcode ZooKeeperError} with this code.
 *
 * @param error Any error.
 * @param code The code.
 * @returns Whether it is.
 */
export function hasCode(error: unknown, code: ZooKeeperErrorCode): boolean {
  return error instanceof ZooKeeperError && error.code === code;
}

/** Errors that a retry in the same session cannot fix: the caller starts over. */
const RESTART: ReadonlySet<ZooKeeperErrorCode> = new Set(["SESSION_OVER", "OWN_ZNODE_GONE"]);

/** Tells an outage budget what a failed request means. */
export function classifyFailure(error: unknown): Failure {
  if (!(error instanceof ZooKeeperError)) return { kind: "foreign", endsOutage: false, reason: "" };
  const { code, isAnswer: endsOutage, isPassing } = error;
  if (!isPassing) return { kind: "refused", endsOutage, reason: `it refuses (${code})` };
  const kind = RESTART.has(code) ? "restart" : "retry";
  return { kind, endsOutage, reason: `it does not answer in time (${code})` };
}

/** The children of a znode. */
export interface Children {
  readonly names: readonly string[];
  /** The zxid of the last change to the children: a create, or a delete. */
  readonly pzxid: bigint;
}

/** A znode. */
export interface Znode {
  readonly data: Uint8Array;
  /** The zxid of its creation: grows with every write to the ensemble. */
  readonly czxid: bigint;
  /** When it was made, by the servers' clock, in ms since the epoch. */
  readonly madeMs: number;
}

/** What happened to a watched znode. A connection that is lost takes its watches along: "changed". */
export type WatchEvent = "changed" | "deleted";

/** Gets one event, once. Must not throw. */
export type Watcher = (event: WatchEvent) => void;

/** The state of a connection and its session. */
export type TransportState =
  /** Not connected yet. */
  | "connecting"
  | "connected"
  /** The connection is lost, and a new one is sought for the same session. */
  | "suspended"
  /** The server says that the session has expired. */
  | "expired"
  /** The server refuses the credentials. */
  | "refused"
  /** Closed from this side. */
  | "closed";

/**
 * One ZooKeeper session. The server executes its requests in the order in which they were issued, also
 * those that are issued before earlier ones are answered. Each request is sent at once or rejects with
 * `NOT_CONNECTED`, is never sent twice, and settles within its time limit, with a
 * {@linkcode ZooKeeperError} if it fails.
 */
export interface ZooKeeperTransport {
  readonly state: TransportState;
  /** Counts connections: what was learned on one of them need not hold on the next. */
  readonly epoch: number;
  /** The session timeout in ms that the server granted; 0 before the first connection. */
  readonly timeoutMs: number;
  /** Why the last attempt to connect failed, as far as known. */
  readonly connectError: unknown;
  /** Creates an ephemeral znode whose name gets a sequence number; resolves with its path. */
  createSequential(pathPrefix: string, data: Uint8Array): Promise<string>;
  /** Creates an ephemeral znode. */
  createEphemeral(path: string): Promise<void>;
  /** Creates a persistent, empty znode. */
  createPersistent(path: string): Promise<void>;
  /** Lists children. */
  children(path: string): Promise<Children>;
  /** Reads a znode and, if it is there, leaves the watcher on it. A watcher is left once. */
  get(path: string, watcher?: Watcher): Promise<Znode>;
  /** Takes a watcher back: it is not called any more. */
  unwatch(path: string, watcher: Watcher): void;
  /** Writes empty data. */
  set(path: string): Promise<void>;
  /** Deletes a znode that has no children. */
  delete(path: string): Promise<void>;
  /** Ends the session at the server, if that answers in time; then there is nothing left of it here. */
  close(timeoutMs: number): Promise<void>;
  /** Drops everything at once, without a word to the server. It can never come back. */
  destroy(): void;
}

/** What a transport needs. */
export interface TransportOptions {
  readonly servers: readonly ServerAddress[];
  /** The session timeout in ms to ask for. */
  readonly sessionTimeoutMs: number;
  /** How long a request may be without an answer in ms, for the session timeout that was granted. */
  requestTimeoutMs(timeoutMs: number): number;
  readonly auth: ZooKeeperAuth | undefined;
  /** Called after each change of state. */
  onState(state: TransportState): void;
}

/** Credentials. With them, all znodes that are made belong to their owner alone. */
export interface ZooKeeperAuth {
  /** The scheme: `"digest"` for user and password. */
  scheme: string;
  /** The credentials, as the scheme wants them: `"user:password"` for `"digest"`. */
  credentials: string;
}

/** Opens a transport; it connects by itself. */
export type OpenTransport = (options: TransportOptions) => ZooKeeperTransport;
