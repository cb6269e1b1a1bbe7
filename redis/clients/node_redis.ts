/**
 * Adapter for node-redis (`npm:redis`, `npm:@redis/client`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";
import { keepSubscribed, type Subscribed } from "./_keep_subscribed.ts";

/** What the adapter needs of a node-redis client. */
export interface NodeRedisClient {
  /** Sends a raw command. */
  sendCommand(args: string[]): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
  /** Makes another client with the same settings but for these. */
  duplicate(options: { socket: object }): NodeRedisSubscriber;
  /** The options that it was made with. */
  readonly options?: { readonly socket?: object };
}

/** What the adapter needs of a node-redis client that subscribes. */
export interface NodeRedisSubscriber {
  /** Connects. */
  connect(): Promise<unknown>;
  /** Subscribes to a channel, also after each reconnect. */
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
  /** Closes the connection at once. */
  destroy(): void;
  /** Whether it is connected, or means to be. */
  readonly isOpen: boolean;
}

/** One adapter per client, so that its listeners are added once. */
const adapters = new WeakMap<NodeRedisClient, RedisClient>();

/**
 * Makes a node-redis client (version 4 or later) usable for `RedisLock`. The client stays the user's
 * own: connect it before, close it after, and listen to its `error` event.
 *
 * @param client A connected client as `createClient()` makes it.
 * @returns The client as the Redis strategy sees it.
 * @throws {TypeError} If it is something else: a pool or a cluster client, say.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 *
 * const client = await createClient().on("error", console.error).connect();
 * await using locks = new RedisLock(nodeRedis(client));
 * ```
 */
export function nodeRedis(client: NodeRedisClient): RedisClient {
  if (typeof client?.sendCommand !== "function" || typeof client.on !== "function") {
    throw new TypeError("Cannot use this as a node-redis client: pass what createClient() returns");
  }
  if ("masters" in client) {
    throw new TypeError(
      "Cannot use a node-redis cluster client yet: pass what createClient() returns",
    );
  }
  const known = adapters.get(client);
  if (known !== undefined) return known;
  let epoch = 0;
  for (const event of ["ready", "reconnecting", "end"]) client.on(event, () => epoch++);
  const adapter: RedisClient = {
    send: (command, args) => client.sendCommand([command, ...args]),
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
  client: NodeRedisClient,
  channel: string,
  onMessage: (message: string) => void,
): Promise<Subscribed> {
  // Its own reconnecting could not be stopped while it connects for the first time.
  const socket = { ...client.options?.socket, reconnectStrategy: false };
  const subscriber = client.duplicate({ socket });
  const ended = new Promise<void>((resolve) => {
    for (const event of ["error", "end"]) {
      subscriber.on(event, () => subscriber.isOpen || resolve());
    }
  });
  const closed = Promise.withResolvers<void>();
  const close = () => {
    if (subscriber.isOpen) subscriber.destroy();
    closed.resolve(); // it may go without a word
  };
  await subscriber.connect();
  try {
    await subscriber.subscribe(channel, onMessage);
  } catch (error) {
    close();
    throw error;
  }
  return { ended: Promise.race([ended, closed.promise]), close };
}
