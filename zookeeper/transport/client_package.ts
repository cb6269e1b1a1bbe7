/**
 * Types and constants of node-zookeeper-client 1.1.3, which has no types, and its error codes. Nothing is
 * sent here.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import type { GuardedClient } from "./client_guard.ts";
import { CONNECTION_LOSS } from "./client_internals.ts";
import { ZooKeeperError, type ZooKeeperErrorCode } from "./errors.ts";

/** The parts of the package that we use. */
export interface Package {
  createClient(connectString: string, options: { sessionTimeout: number; retries: number }): Client;
  readonly ACL: { readonly OPEN_ACL_UNSAFE: Acl[]; readonly CREATOR_ALL_ACL: Acl[] };
}

/** An entry of an access control list. */
export type Acl = Readonly<Record<string, unknown>>;
/** Called with the answer to a request. */
export type Done<T extends unknown[]> = (
  error: { code: number } | null | undefined,
  ...values: T
) => void;
/** The event of a watch. */
export type NodeEvent = { readonly type: number };
/** The metadata of a znode; a long number is a buffer. */
export type Stat =
  & Readonly<Record<"czxid" | "pzxid" | "ctime", Buffer>>
  & Readonly<Record<"cversion" | "numChildren", number>>;

/** A client. */
export interface Client extends GuardedClient {
  connect(): void;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  getSessionTimeout(): number;
  on(event: ClientEvent, listener: () => void): void;
  create(path: string, data: Buffer | null, acl: Acl[], mode: number, done: Done<[string]>): void;
  getChildren(path: string, done: Done<[string[] | undefined, Stat]>): void;
  getData(
    path: string,
    watcher: ((event: NodeEvent) => void) | undefined,
    done: Done<[Buffer | undefined, Stat]>,
  ): void;
  setData(path: string, data: Buffer, done: Done<[]>): void;
  remove(path: string, done: Done<[]>): void;
}

/** An event of a client's connection. */
export type ClientEvent = "connected" | "disconnected" | "expired" | "authenticationFailed";

/** Mode of create: the znode stays until it is deleted. */
export const PERSISTENT = 0;
/** Mode of create: the znode is deleted with its session. */
export const EPHEMERAL = 1;
/** Mode of create: ephemeral, and the server appends a sequence number. */
export const EPHEMERAL_SEQUENTIAL = 3;
/** Type of an event: the watched znode was deleted. */
export const NODE_DELETED = 2;

/**
 * The codes of
 * https://zookeeper.apache.org/doc/current/apidocs/zookeeper-server/org/apache/zookeeper/KeeperException.Code.html
 */
const CODES: Readonly<Record<number, ZooKeeperErrorCode>> = {
  [CONNECTION_LOSS]: "CONNECTION_LOSS",
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

/** Converts an error of the package. */
export function toError({ code }: { code: number }): ZooKeeperError {
  const name = CODES[code] ?? "REFUSED";
  return new ZooKeeperError(name, `ZooKeeper answered ${CODES[code] ?? "with error"} (${code})`);
}
