/**
 * What is used of node-zookeeper-client 1.1.3, in types: it has none of its own.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import type { GuardedClient } from "./client_guard.ts";
import { ZooKeeperError, type ZooKeeperErrorCode } from "./errors.ts";

/** The parts of the package that are used: it has no types of its own. */
export interface Package {
  createClient(connectString: string, options: { sessionTimeout: number; retries: number }): Client;
  readonly ACL: { readonly OPEN_ACL_UNSAFE: Acl[]; readonly CREATOR_ALL_ACL: Acl[] };
}

/** An entry of an access control list. */
export type Acl = Readonly<Record<string, unknown>>;
/** Takes an answer. */
export type Done<T extends unknown[]> = (
  error: { code: number } | null | undefined,
  ...values: T
) => void;
/** What a watcher is told. */
export type NodeEvent = { readonly type: number };
/** What the server knows of a znode; a long number is a buffer. */
export type Stat = Readonly<Record<"czxid" | "pzxid" | "ctime", Buffer>>;

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

/** What a client tells of its connection. */
export type ClientEvent = "connected" | "disconnected" | "expired" | "authenticationFailed";

/** Mode of create. */
export const PERSISTENT = 0;
/** Mode of create. */
export const EPHEMERAL = 1;
/** Mode of create. */
export const EPHEMERAL_SEQUENTIAL = 3;
/** Type of an event. */
export const NODE_DELETED = 2;

/** https://zookeeper.apache.org/doc/current/apidocs/zookeeper-server/org/apache/zookeeper/KeeperException.Code.html */
const CODES: Readonly<Record<number, ZooKeeperErrorCode>> = {
  [-4]: "CONNECTION_LOSS",
  [-101]: "NO_NODE",
  [-102]: "NO_AUTH",
  [-110]: "NODE_EXISTS",
  [-111]: "NOT_EMPTY",
  [-112]: "SESSION_OVER",
  [-115]: "AUTH_FAILED",
  // The session lives on another connection: this one is of no use.
  [-118]: "CONNECTION_LOSS",
};

/** Translates an error of the package. */
export function toError({ code }: { code: number }): ZooKeeperError {
  const name = CODES[code] ?? "REFUSED";
  return new ZooKeeperError(name, `ZooKeeper answered ${CODES[code] ?? "with error"} (${code})`);
}
