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
}

/** A client. */
export interface Client extends GuardedClient {
  connect(): void;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  getSessionTimeout(): number;
  on(event: ClientEvent, listener: () => void): void;
}

/** An event of a client's connection. */
export type ClientEvent = "connected" | "disconnected" | "expired" | "authenticationFailed";

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
