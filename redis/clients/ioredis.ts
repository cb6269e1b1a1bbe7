/**
 * Adapter for ioredis (`npm:ioredis`, and its fork `npm:iovalkey`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";
import { keepSubscribed, type Subscribed } from "./_keep_subscribed.ts";

/** What the adapter needs of an ioredis client. */
export interface IoredisClient {
  /** Sends a raw command. */
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
  /** Makes another client with the same settings but for these. */
  duplicate(options: { lazyConnect: boolean; retryStrategy: () => null }): IoredisSubscriber;
  /** The options that it was made with. */
  readonly options: { readonly keyPrefix?: string | undefined };
}

/** What the adapter needs of an ioredis client that subscribes. */
export interface IoredisSubscriber {
  /** Connects. */
  connect(): Promise<unknown>;
  /** Subscribes to a channel. */
  subscribe(channel: string): Promise<unknown>;
  /** Listens for messages. */
  on(event: "message", listener: (channel: string, message: string) => void): unknown;
  /** Listens for events of the connection. */
  on(event: "error" | "end", listener: () => void): unknown;
  /** Closes the connection. */
  disconnect(): void;
  /** The state of the connection. */
  readonly status: string;
}

/** One adapter per client, so that its listeners are added once. */
const adapters = new WeakMap<IoredisClient, RedisClient>();

/**
 * Makes an ioredis client (version 5 or later) usable for `RedisLock`. The client stays the user's
 * own: close it after the lock, and listen to its `error` event. Its default settings are fine, those
 * that send commands again after a reconnect too.
 *
 * @param client A client as `new Redis()` makes it.
 * @returns The client as the Redis strategy sees it.
 * @throws {TypeError} If it is something else (a cluster client, say), or has a `keyPrefix`: it would
 * change the keys of some commands and not of others. Use the `keyPrefix` of `RedisLock` instead.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import { Redis } from "ioredis";
 *
 * const client = new Redis("redis://127.0.0.1:6379");
 * await using locks = new RedisLock(ioredis(client));
 * ```
 */
export function ioredis(client: IoredisClient): RedisClient {
  if (typeof client?.call !== "function" || typeof client.on !== "function") {
    throw new TypeError("Cannot use this as an ioredis client: pass what new Redis() returns");
  }
  if ("isCluster" in client && client.isCluster) {
    throw new TypeError("Cannot use an ioredis cluster client yet: pass what new Redis() returns");
  }
  if (client.options?.keyPrefix) {
    throw new TypeError(
      "Cannot use an ioredis client that has a 'keyPrefix': set that of RedisLock instead",
    );
  }
  const known = adapters.get(client);
  if (known !== undefined) return known;
  let epoch = 0;
  for (const event of ["connect", "close", "end"]) client.on(event, () => epoch++);
  const adapter: RedisClient = {
    send: (command, args) => client.call(command, ...args),
    subscribe: (channel, onMessage, onGap) =>
      keepSubscribed(() => subscribe(client, channel, onMessage), onGap),
    get epoch() {
      return epoch;
    },
    cluster: false,
  };
  adapters.set(client, adapter);
  return adapter;
}

/** Connects and subscribes once. */
async function subscribe(
  client: IoredisClient,
  channel: string,
  onMessage: (message: string) => void,
): Promise<Subscribed> {
  // Its own reconnecting would not tell when it has subscribed again.
  const subscriber = client.duplicate({ lazyConnect: true, retryStrategy: () => null });
  const ended = new Promise<void>((resolve) => subscriber.on("end", resolve));
  subscriber.on("error", () => {}); // what matters is that it ends
  subscriber.on("message", (_channel, message) => onMessage(message));
  await subscriber.connect();
  try {
    await subscriber.subscribe(channel);
  } catch (error) {
    if (subscriber.status !== "end") subscriber.disconnect();
    throw error;
  }
  return { ended, close: () => subscriber.status !== "end" && subscriber.disconnect() };
}
