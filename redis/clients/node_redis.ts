/**
 * Adapter for node-redis (`npm:redis`, `npm:@redis/client`).
 *
 * @module
 */
import type { RedisClient } from "../client.ts";
import { keepSubscribed, type Subscribed } from "./internal/keep_subscribed.ts";

/** The members of a node-redis client that the adapter uses. */
export interface NodeRedisClient {
  /** Sends a raw command. */
  sendCommand(args: string[]): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
  /** Makes another client with the same settings, except these. */
  duplicate(options: { socket: object }): NodeRedisSubscriber;
  /** The options that it was made with. */
  readonly options?: { readonly socket?: object };
  /** Whether it is connected. */
  readonly isReady?: boolean;
}

/** The members of a subscribing node-redis client that the adapter uses. */
export interface NodeRedisSubscriber {
  /** Connects. */
  connect(): Promise<unknown>;
  /** Subscribes to a channel, also after each reconnect. */
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string, listener: () => void): unknown;
  /** Closes the connection at once. */
  destroy(): void;
  /** Whether it is connected, connecting or reconnecting. */
  readonly isOpen: boolean;
}

/** The members of a node-redis cluster client that the adapter uses. */
export interface NodeRedisCluster {
  /** Sends a raw command to the master that has a key. */
  sendCommand(firstKey: string, isReadonly: boolean, args: string[]): Promise<unknown>;
  /** Listens for events of the connections. */
  on(event: string, listener: () => void): unknown;
  /** The masters that are known. */
  readonly masters: readonly NodeRedisMaster[];
}

/** The members of a master in a node-redis cluster client that the adapter uses. */
export interface NodeRedisMaster {
  /** The connection to it, if there is one already. */
  readonly client?: NodeRedisClient | undefined;
}

/** Events after which the connection is another one. */
const CLIENT_EVENTS = ["ready", "reconnecting", "end"];
const CLUSTER_EVENTS = ["node-ready", "node-reconnecting", "node-disconnect", "node-error"];

/** One adapter per client, so that its listeners are added once. */
const adapters = new WeakMap<NodeRedisClient | NodeRedisCluster, RedisClient>();

/**
 * Adapts a node-redis client (version 4 or later; for a cluster, 5 or later) for `RedisLock`. The
 * client stays yours: connect it before the first call, close it after the lock, and listen to its
 * `error` event.
 *
 * @param client A connected client as `createClient()` or `createCluster()` makes it.
 * @returns The client as the Redis strategy sees it.
 * @throws {TypeError} If it is not such a client.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(client));
 *   assertEquals(await locks.request("orders:42", () => "done"), "done");
 * }
 * await client.close();
 * ```
 *
 * @example Redis Cluster
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createCluster } from "redis";
 * import { assertEquals } from "@std/assert";
 *
 * const cluster = createCluster({ rootNodes: [{ url: "redis://127.0.0.1:7000" }] });
 * await cluster.on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(cluster));
 *   assertEquals(await locks.request("orders:42", () => "done"), "done");
 * }
 * await cluster.close();
 * ```
 */
export function nodeRedis(client: NodeRedisClient | NodeRedisCluster): RedisClient {
  if (typeof client?.sendCommand !== "function" || typeof client.on !== "function") {
    throw new TypeError(
      "Cannot use this as a node-redis client: pass what createClient() or createCluster() returns",
    );
  }
  const known = adapters.get(client);
  if (known !== undefined) return known;
  const adapter = "masters" in client ? adaptCluster(client) : adaptClient(client);
  adapters.set(client, adapter);
  return adapter;
}

function adaptClient(client: NodeRedisClient): RedisClient {
  let epoch = 0;
  for (const event of CLIENT_EVENTS) client.on(event, () => epoch++);
  return {
    send: (command, args) => client.sendCommand([command, ...args]),
    subscribe: (channel, onMessage, onGap) =>
      keepSubscribed(() => subscribe(client, channel, onMessage), onGap),
    get epoch() {
      return epoch;
    },
    cluster: false,
  };
}

function adaptCluster(cluster: NodeRedisCluster): RedisClient {
  let epoch = 0;
  for (const event of CLUSTER_EVENTS) cluster.on(event, () => epoch++);
  return {
    send(command, args, key) {
      // Without a key the client would ask all masters and warn that it cannot merge their replies.
      if (key === "") return anyMaster(cluster).sendCommand([command, ...args]);
      return cluster.sendCommand(key, false, [command, ...args]);
    },
    // Nodes forward published messages to each other, so any node serves.
    subscribe: (channel, onMessage, onGap) =>
      keepSubscribed(async () => await subscribe(anyMaster(cluster), channel, onMessage), onGap),
    get epoch() {
      return epoch;
    },
    cluster: true,
  };
}

/** Returns the client of a master, if possible of a connected one. */
function anyMaster({ masters }: NodeRedisCluster): NodeRedisClient {
  const clients = masters.flatMap(({ client }) => client ?? []);
  const ready = clients.filter(({ isReady }) => isReady);
  const candidates = ready.length > 0 ? ready : clients;
  const chosen = candidates[Math.floor(Math.random() * candidates.length)];
  if (chosen === undefined) throw new Error("No master of the cluster is connected");
  return chosen;
}

/** Connects and subscribes once. */
async function subscribe(
  client: NodeRedisClient,
  channel: string,
  onMessage: (message: string) => void,
): Promise<Subscribed> {
  // No reconnecting by the client: its first attempts to connect could not be stopped.
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
    closed.resolve(); // the client may close without an event
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
