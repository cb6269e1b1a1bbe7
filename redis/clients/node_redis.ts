/**
 * Adapter for node-redis (`npm:redis`, `npm:@redis/client`).
 *
 * @module
 */
import { LockSetupError } from "../../core/contract/errors.ts";
import type { RedisClient } from "../client.ts";
import { adapterOf } from "./internal/adapter.ts";
import { ConnectionWatch, ERROR_EVENT } from "./internal/connection_watch.ts";
import { type NodeRedisClient, subscribe, watchClient } from "./internal/node_redis_client.ts";
import { adaptSentinel, type NodeRedisSentinel } from "./internal/node_redis_sentinel.ts";

export type { NodeRedisClient, NodeRedisSentinel };

/** The members of a node-redis cluster client that the adapter uses. */
export interface NodeRedisCluster {
  /** Sends a raw command to the master that has a key. */
  sendCommand(firstKey: string, isReadonly: boolean, args: string[]): Promise<unknown>;
  /** Listens for events of the connections. */
  on(event: string | symbol, listener: (...args: unknown[]) => void): unknown;
  /** The masters that are known. */
  readonly masters: readonly {
    /** The connection to it, if there is one already. */
    readonly client?: NodeRedisClient | undefined;
  }[];
  /** Returns the connection to one of them, and opens it if it must. */
  nodeClient(node: object): Promise<NodeRedisClient>;
  /** By hash slot: the nodes that have it. */
  readonly slots?: readonly ({ readonly master: { readonly address: string } } | undefined)[];
  /** Whether it is connected or connecting. */
  readonly isOpen?: boolean;
}

/** Events after which the connection to a node is another one. */
const CLUSTER_EVENTS = ["node-ready", "node-reconnecting", "node-disconnect", "node-error"];

/** One adapter per client, so that its listeners are added once. */
const adapters = new WeakMap<object, RedisClient>();

/**
 * Adapts a node-redis client (version 5 or later) for `RedisLock`. The client stays yours: connect it before
 * the first call, close it after the lock, and listen to its `error` event.
 *
 * A pool is refused: it hides which of its connections a command was sent on, and whether that one was
 * lost. One client serves any number of locks.
 *
 * @param client A connected client as `createClient()`, `createSentinel()` or `createCluster()` makes it.
 * @throws {LockSetupError} If it is not such a client, but one of `createClientPool()` or of version 4 for
 * example, or if it has a `keyPrefix`, which raw commands ignore. Use the `keyPrefix` of `RedisLock` instead.
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
 * client.destroy();
 * ```
 *
 * @example Redis Sentinel
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createSentinel } from "redis";
 *
 * const client = createSentinel({
 *   name: "mymaster",
 *   sentinelRootNodes: [{ host: "127.0.0.1", port: 5000 }],
 * });
 * await client.on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(client));
 *   await using lease = await locks.acquire("orders:42");
 *   lease.throwIfLost();
 * }
 * await client.destroy();
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
 * cluster.destroy();
 * ```
 */
export function nodeRedis(
  client: NodeRedisClient | NodeRedisSentinel | NodeRedisCluster,
): RedisClient {
  if (typeof client?.sendCommand !== "function" || typeof client.on !== "function") {
    throw new LockSetupError(`Cannot use this as a node-redis client: ${ADVICE}`);
  }
  if ("call" in client) {
    throw new LockSetupError("Cannot use an ioredis client in nodeRedis(): use ioredis(client)");
  }
  if (!("destroy" in client) && "disconnect" in client) {
    throw new LockSetupError("Cannot use this version of node-redis: use version 5 or later");
  }
  if (Reflect.get(client, "_keyPrefix")) { // the only member that all three kinds of clients have for it
    throw new LockSetupError(
      "Cannot use a node-redis client that has a 'keyPrefix': set that of RedisLock instead",
    );
  }
  const known = adapters.get(client);
  if (known !== undefined) return known;
  const adapter = adapt(client);
  adapters.set(client, adapter);
  return adapter;
}

/**
 * By default the client makes an abort signal and a timer for each command, to drop commands that are not
 * sent in time. That costs more than the command, and the lock has time limits of its own.
 */
const NO_TIMEOUT = { timeout: undefined } as const;

const ADVICE = "pass what createClient(), createSentinel() or createCluster() returns";

function adapt(client: Parameters<typeof nodeRedis>[0]): RedisClient {
  if ("masters" in client) return adaptCluster(client);
  if ("getMasterNode" in client && "_execute" in client) return adaptSentinel(client);
  if ("duplicate" in client && "isReady" in client) return adaptClient(client);
  const isPool = "totalClients" in client;
  throw new LockSetupError(
    `Cannot use ${
      isPool ? "a pool of node-redis clients" : "this client of node-redis"
    }: ${ADVICE}`,
  );
}

function adaptClient(client: NodeRedisClient): RedisClient {
  const watch = new ConnectionWatch(() => client.isOpen ?? true);
  watchClient(client, watch);
  return adapterOf(watch, {
    send: (command, args) => client.sendCommand([command].concat(args), NO_TIMEOUT),
    subscribe: (...args) => subscribe(client, ...args),
    cluster: false,
  });
}

function adaptCluster(cluster: NodeRedisCluster): RedisClient {
  const watch = new ConnectionWatch(() => cluster.isOpen ?? true);
  watchCluster(cluster, watch);
  return adapterOf(watch, {
    send(command, args, key) {
      // Without a key the client would ask all masters and warn that it cannot merge their replies.
      if (key === "") return anyMaster(cluster).sendCommand([command].concat(args));
      return cluster.sendCommand(key, false, [command].concat(args));
    },
    // Nodes forward published messages to each other, so any node serves.
    subscribe: async (...args) => await subscribe(anyMaster(cluster), ...args),
    cluster: true,
    nodeOf: (slot) => cluster.slots?.[slot]?.master.address,
    primaries: async () => {
      const clients = cluster.masters.map((node) => cluster.nodeClient(node));
      return (await Promise.all(clients)).map((client) => ({
        send: (command, args) => client.sendCommand([command].concat(args)),
      }));
    },
  });
}

function watchCluster(cluster: NodeRedisCluster, watch: ConnectionWatch): void {
  for (const event of CLUSTER_EVENTS) cluster.on(event, () => watch.changed());
  // The client describes each node by one object, the same in all of its events.
  cluster.on("node-error", (error, node) => watch.failed(node as object, error));
  cluster.on("node-disconnect", (node) => watch.forget(node as object));
  cluster.on("node-ready", (node) => {
    watch.forget(node as object);
    watch.forget(cluster);
  });
  const isReady = () => cluster.masters.some(({ client }) => client?.isReady);
  cluster.on(ERROR_EVENT, (error) => isReady() || watch.failed(cluster, error));
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
