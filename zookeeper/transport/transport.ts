/**
 * The port: the few things that the strategy needs of a ZooKeeper client. Another client goes behind
 * the same interface.
 *
 * @module
 */

import type { ServerAddress } from "./connect_string.ts";

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
