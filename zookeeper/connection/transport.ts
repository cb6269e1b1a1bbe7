/**
 * The port: what we need of a ZooKeeper client. To use another one, implement {@linkcode ZooKeeperTransport}.
 *
 * @module
 */
import type { ConnectionOptions } from "node:tls";
import type { Instant } from "../../core/time/clock.ts";
import type { Watches } from "./watches.ts";
import type { Request } from "./wire.ts";

export type TransportState =
  | "connecting"
  | "connected"
  /** The connection is lost; the client tries to reconnect to the same session. */
  | "suspended"
  | "expired"
  /**
   * A server refuses the credentials, or no server can be connected to before somebody changes a setting,
   * a permission or a certificate: `connectError` says why. After the first connection only for credentials.
   */
  | "refused"
  | "closed";

export interface TransportListener {
  onStateChange(state: TransportState): void;
  /** The server has answered a ping. */
  onPing(sent: Instant): void;
}

/**
 * One ZooKeeper session. The server executes its requests in the order of the calls, even if earlier ones are not
 * answered yet.
 */
export interface ZooKeeperTransport {
  readonly state: TransportState;
  /** The number of connections so far. A different epoch means a different connection. */
  readonly epoch: number;
  /** The session timeout in ms that the server granted; 0 before the first connection. */
  readonly timeoutMs: number;
  /** When the session was requested of the server that has accepted it, on the current connection. */
  readonly requestedAt: Instant;
  /** How long in ms no message has arrived from a server; `Infinity` before the first connection. */
  readonly silentMs: number;
  /** Why no server could be connected to, or the connection was dropped; `undefined` if unknown. */
  readonly connectError: unknown;
  /** Whether an attempt to connect has failed since the last session was accepted. */
  readonly isFailing: boolean;
  readonly requests: {
    /**
     * Sends a request, once.
     *
     * @param isUrgent Whether to send it before others, many of which may wait until the server answers. Only
     * for a heartbeat.
     * @returns The answer, within the time limit of requests.
     * @throws {ZooKeeperError} If it fails: `NOT_CONNECTED` if it was not sent.
     */
    send<T>(request: Request<T>, isUrgent?: boolean): Promise<T>;
  };
  /** Who is notified of the events of watches. The transport fires them, and drops them all at a loss. */
  readonly watches: Watches;
  /** Sets the listener that is notified from now on. It replaces the previous one. */
  setListener(listener: TransportListener): void;
  /** Ends a pause between two attempts to connect: somebody needs the connection now. */
  connectNow(): void;
  /**
   * Closes the session at the server if it answers within `timeoutMs`, then frees all resources. Unanswered
   * requests settle by then, whatever their own limit.
   */
  close(timeoutMs: number): Promise<void>;
  /** Frees all resources at once, without notifying the server. The client never reconnects. */
  destroy(): void;
}

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** The options of a transport. Those without a comment are described in `ZooKeeperLockOptions`. */
export interface TransportOptions {
  /** Lists the servers, in the order in which they are tried, for each round of attempts to connect. */
  readonly listServers: () => Promise<readonly ServerAddress[]>;
  /** Looks up all addresses of a host, for a connection to one of its ports; as the runtime does unless set. */
  readonly lookUp?: (host: string, port: number) => Promise<readonly string[]>;
  readonly tls: ConnectionOptions | undefined;
  readonly auth: ZooKeeperAuth | undefined;
  readonly sessionTimeoutMs: number;
  readonly unavailableAfterMs: number;
  readonly requestTimeoutMs: number | undefined;
  readonly warn: (message: string) => void;
}

/** Credentials. With them, only their owner has access to the znodes that are created. */
export interface ZooKeeperAuth {
  /** The scheme: `"digest"` for user and password. */
  scheme: string;
  /** The credentials in the form that the scheme needs: `"user:password"` for `"digest"`. */
  credentials: string;
}
