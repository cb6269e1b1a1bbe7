/**
 * Adapter for node-redis (`npm:redis`, `npm:@redis/client`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";

/** What the adapter needs of a node-redis client. */
export interface NodeRedisClient {
  /** Sends a raw command. */
  sendCommand(args: string[]): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
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
    get epoch() {
      return epoch;
    },
    cluster: false,
  };
  adapters.set(client, adapter);
  return adapter;
}
