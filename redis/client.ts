/**
 * A Redis client as the strategy sees it. Adapters for well-known clients are in `./node-redis`,
 * `./ioredis` and `./deno-redis`; another client needs these few lines.
 *
 * The client may queue commands while it is disconnected and may replay them after a reconnect: every
 * command that the strategy sends can be executed twice, late, or not at all.
 *
 * @example A client of your own
 * ```ts ignore
 * import { type RedisClient, RedisLock } from "@holdfast/lock/redis";
 * import { createClient } from "redis";
 *
 * let epoch = 0;
 * const connection = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).on("ready", () => epoch++).on("reconnecting", () => epoch++)
 *   .connect();
 * const client: RedisClient = {
 *   send: (command, args) => connection.sendCommand([command, ...args]),
 *   get epoch() {
 *     return epoch;
 *   },
 *   cluster: false,
 * };
 * {
 *   await using locks = new RedisLock(client);
 *   await using lease = await locks.acquire("orders:42");
 *   lease.throwIfLost();
 * }
 * await connection.close();
 * ```
 */
export interface RedisClient {
  /**
   * Sends a command and resolves with its reply: text as a string, an integer as a number, nil as
   * `null`, an array as an array of these. If the server refuses, rejects with an error whose message
   * begins with the server's own text (`NOSCRIPT …`). If the connection failed, rejects with an error
   * that has the network error's `code` (`ECONNREFUSED`), itself or in its `cause`: messages name it.
   *
   * @param key The key that decides where a cluster client sends it.
   */
  send(command: string, args: string[], key: string): Promise<unknown>;
  /**
   * Subscribes to a channel on a connection of its own, which it closes at the end. Without this method waiters poll.
   *
   * @param onSubscribed Called when it has subscribed, and again whenever the client has done so by itself
   * after a lost connection: messages may have been lost before that.
   * @param signal Ends the subscription, or the attempt: the server may not answer it.
   * @returns Resolves when the connection has ended; then `RedisLock` subscribes again. Rejects if the client cannot
   * subscribe.
   */
  subscribe?(
    channel: string,
    onMessage: (message: string) => void,
    onSubscribed: () => void,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * A number that changes whenever a command connection is lost or made. If it has changed between a
   * command and its reply, the client may have sent the command twice. A client that cannot know returns
   * another number at each read: then no answer counts as that of the only copy. A copy of an adapter
   * (`{ ...adapter }`) has the number of that moment, so wrap one by `Object.create(adapter)`.
   */
  readonly epoch: number;
  /**
   * Why the command connection is down: the last error that the client has reported, `undefined` once
   * the connection is up again. A client may keep its commands meanwhile instead of rejecting them, so
   * without this the message of a `LockUnavailableError` cannot name the cause.
   */
  readonly connectionError?: unknown;
  /**
   * Why no command can ever be sent, as the end of a sentence: the client was never connected, or it is
   * closed. `undefined` while it is connected or connects, and after it has lost its connection: that is an
   * outage. Read after a failure, and at disposal. A client without it is taken for usable.
   */
  readonly unusable?: string | undefined;
  /** What its user should know of how it is set up. Each `RedisLock` passes it to `onWarning`. */
  readonly warning?: string | undefined;
  /**
   * Whether the client talks to Redis Cluster, whose nodes have clocks and subscribers of their own.
   * It must follow redirections (`MOVED`, `ASK`), and `epoch` must count the connections to all nodes.
   */
  readonly cluster: boolean;
  /**
   * Of a client of a cluster: names the node that has a hash slot (0 to 16383), as far as it is known. A node has at
   * most 256 commands unanswered, and commands to other nodes do not wait for them. Without this method all nodes
   * count as one: if one does not answer, the leases on the others are lost, too.
   */
  nodeOf?(slot: number): string | undefined;
  /**
   * Of a client of a cluster: the primaries that it knows, each with its own `send()`, whose key has no effect.
   * Without this method the names of locks in a cluster cannot be listed.
   */
  primaries?(): Promise<readonly Pick<RedisClient, "send">[]>;
  /**
   * Drops the connection. Called when a command has had no reply within `commandTimeoutMs`. Only for
   * clients that run one command at a time and never time out: there one command blocks all later ones.
   */
  reset?(): void;
  /** Closes the connections that the adapter itself opened. The next command may open new ones. */
  close?(): Promise<void>;
}
