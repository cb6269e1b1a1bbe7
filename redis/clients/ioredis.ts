/**
 * Adapter for ioredis (`npm:ioredis`, and its fork `npm:iovalkey`).
 *
 * @module
 */
import process from "node:process";
import type { Writable } from "node:stream";
import { LockSetupError } from "../../core/contract/errors.ts";
import type { RedisClient } from "../client.ts";
import { adapterOf } from "./internal/adapter.ts";
import { ConnectionWatch, ERROR_EVENT } from "./internal/connection_watch.ts";

/** The members of an ioredis client that the adapter uses. */
export interface IoredisClient {
  /** Sends a raw command. */
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Listens for events of the connection. */
  on(event: string | symbol, listener: (error?: unknown) => void): unknown;
  /** Makes another client with the same settings, except these: one that subscribes. */
  duplicate(options: {
    lazyConnect: boolean;
    keepAlive: number;
    retryStrategy: () => null;
    sentinelRetryStrategy: () => null;
  }): {
    /** Connects. */
    connect(): Promise<unknown>;
    /** Subscribes to a channel. */
    subscribe(channel: string): Promise<unknown>;
    /** Listens for messages. */
    on(event: "message", listener: (channel: string, message: string) => void): unknown;
    /** Listens for events of the connection. */
    on(event: "error" | "end", listener: (error?: unknown) => void): unknown;
    /** Closes the connection. */
    disconnect(): void;
    /** The state of the connection. */
    readonly status: string;
  };
  /** The options that it was made with. */
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly keepAlive?: number | undefined;
    readonly sentinels?: readonly unknown[] | null | undefined;
    readonly failoverDetector?: boolean | undefined;
  };
  /** The state of the connection. */
  readonly status?: string;
  /** The socket, once there is one. */
  readonly stream?: Pick<Writable, "cork" | "uncork"> | undefined;
}

/** The members of an ioredis cluster client that the adapter uses. */
export interface IoredisCluster {
  /** Sends a raw command to the master that has its keys. */
  call(command: string, ...args: string[]): Promise<unknown>;
  /** Listens for nodes that are added. */
  on(event: "+node", listener: (node: IoredisClient) => void): unknown;
  /** Listens for events of the cluster. */
  on(event: string | symbol, listener: (error?: unknown) => void): unknown;
  /** The nodes that are known. */
  nodes(role: "all" | "master"): IoredisClient[];
  /** By hash slot: the addresses of the nodes that have it, the master first. */
  readonly slots?: readonly (readonly string[] | undefined)[];
  /** True. */
  readonly isCluster: boolean;
  /** The state of the connections. */
  readonly status?: string;
  /** The options that it was made with. */
  readonly options: { readonly keyPrefix?: string | undefined };
}

/**
 * How long in ms the inbox's connection, which only listens, is silent before TCP asks whether it is alive: the
 * default of version 6. That of version 5 is 0, with which the system asks after two hours.
 */
const KEEP_ALIVE_MS = 30_000;

/** Events after which the connection is another one. */
const EVENTS = ["connect", "close", "end"];

/** One adapter per client, so that its listeners are added once. */
const adapters = new WeakMap<IoredisClient | IoredisCluster, RedisClient>();

/**
 * Adapts an ioredis client (version 5 or later) for `RedisLock`: of a single server, of a primary that
 * sentinels watch, or of a cluster. The client stays yours: close it after the lock, and listen to its
 * `error` event. Its default settings are fine, even those that send commands again after a reconnect.
 *
 * @param client A client as `new Redis()` or `new Cluster()` makes it.
 * @throws {LockSetupError} If it is not such a client, or has a `keyPrefix`, which would change the keys
 * of some commands and not of others. Use the `keyPrefix` of `RedisLock` instead.
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import { Redis } from "ioredis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = new Redis("redis://127.0.0.1:6379").on("error", console.error);
 * {
 *   await using locks = new RedisLock(ioredis(client));
 *   assertEquals(await locks.request("orders:42", () => "done"), "done");
 * }
 * client.disconnect();
 * ```
 *
 * @example Redis Sentinel
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import { Redis } from "ioredis";
 *
 * const client = new Redis({
 *   name: "mymaster",
 *   sentinels: [{ host: "127.0.0.1", port: 5000 }],
 *   failoverDetector: true,
 * }).on("error", console.error);
 * {
 *   await using locks = new RedisLock(ioredis(client));
 *   await using lease = await locks.acquire("orders:42");
 *   lease.throwIfLost();
 * }
 * client.disconnect(); // also from the sentinels, which quit() does not do
 * ```
 *
 * @example Redis Cluster
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import { Cluster } from "ioredis";
 * import { assertEquals } from "@std/assert";
 *
 * const cluster = new Cluster(["redis://127.0.0.1:7000"]).on("error", console.error);
 * {
 *   await using locks = new RedisLock(ioredis(cluster));
 *   assertEquals(await locks.request("orders:42", () => "done"), "done");
 * }
 * cluster.disconnect();
 * ```
 */
export function ioredis(client: IoredisClient | IoredisCluster): RedisClient {
  if (typeof client?.call !== "function" && typeof Object(client).sendCommand === "function") {
    throw new LockSetupError("Cannot use a node-redis client in ioredis(): use nodeRedis(client)");
  }
  if (typeof client?.call !== "function" || typeof client.on !== "function") {
    throw new LockSetupError(
      "Cannot use this as an ioredis client: pass what new Redis() or new Cluster() returns",
    );
  }
  if (client.options?.keyPrefix) {
    throw new LockSetupError(
      "Cannot use an ioredis client that has a 'keyPrefix': set that of RedisLock instead",
    );
  }
  const known = adapters.get(client);
  if (known !== undefined) return known;
  const adapter = isCluster(client) ? adaptCluster(client) : adaptClient(client);
  adapters.set(client, adapter);
  return adapter;
}

function isCluster(client: IoredisClient | IoredisCluster): client is IoredisCluster {
  return "isCluster" in client && client.isCluster;
}

function adaptClient(client: IoredisClient): RedisClient {
  const watch = new ConnectionWatch(() => client.status !== "end");
  watchClient(client, watch);
  if (client.options?.failoverDetector === true) reconnectAfterFailover(client, watch);
  const gather = gatherWrites(client);
  return adapterOf(watch, {
    send(command, args) {
      gather();
      return client.call(command, ...args);
    },
    subscribe: (...args) => subscribe(client, ...args),
    cluster: false,
    ...lacksDetector(client) ? { warning: NO_DETECTOR } : {},
  });
}

const NO_DETECTOR =
  "The ioredis client is not told of a failover: it may stay on the old primary for " +
  "11 s, and two processes can hold one lock meanwhile. Give it the option 'failoverDetector: true'";

/**
 * Connects again when a failover has ended the client: the detector of ioredis disconnects it also while it
 * connects, and then the client takes itself for closed by its user.
 */
function reconnectAfterFailover(client: IoredisClient, watch: ConnectionWatch): void {
  const ended = client as IoredisClient & {
    manuallyClosing?: boolean;
    connect(): Promise<unknown>;
  };
  client.on("end", () => {
    const { message } = Object(watch.connectionError);
    if (ended.manuallyClosing !== false || message !== "Connection is closed.") return;
    ended.connect().catch(() => {}); // it reports its errors as events
  });
}

/** Whether the client finds its primary by sentinels, but is not told of a failover. */
function lacksDetector({ options }: IoredisClient): boolean {
  return Boolean(options?.sentinels?.length) && options.failoverDetector !== true;
}

function adaptCluster(cluster: IoredisCluster): RedisClient {
  const watch = new ConnectionWatch(() => cluster.status !== "end");
  // A node that is down is removed, and made anew for the next command, so nothing is kept by node.
  const watchNode = (node: IoredisClient) => watchClient(node, watch, cluster);
  for (const node of cluster.nodes("all")) watchNode(node);
  cluster.on("+node", watchNode);
  cluster.on(ERROR_EVENT, (error) => watch.failed(cluster, error));
  return adapterOf(watch, {
    // The client finds the keys of a script itself.
    send: (command, args) => cluster.call(command, ...args),
    // Nodes forward published messages to each other, so any node serves.
    subscribe: async (...args) => await subscribe(anyMaster(cluster), ...args),
    cluster: true,
    nodeOf: (slot) => cluster.slots?.[slot]?.[0],
    primaries: () =>
      Promise.resolve(
        cluster.nodes("master").map((node) => ({
          send: (command, args) => node.call(command, ...args),
        })),
      ),
  });
}

/** Reports the events of a client, and its errors as those of `owner`. */
function watchClient(client: IoredisClient, watch: ConnectionWatch, owner: object = client): void {
  for (const event of EVENTS) client.on(event, () => watch.changed());
  client.on(ERROR_EVENT, (error) => client.status === "ready" || watch.failed(owner, error));
  client.on("ready", () => watch.forget(owner));
}

/** Returns a master, if possible a connected one. */
function anyMaster(cluster: IoredisCluster): IoredisClient {
  const nodes = cluster.nodes("master");
  const ready = nodes.filter(({ status }) => status === "ready");
  const candidates = ready.length > 0 ? ready : nodes;
  const chosen = candidates[Math.floor(Math.random() * candidates.length)];
  if (chosen === undefined) throw new Error("No master of the cluster is known");
  return chosen;
}

/** As {@linkcode RedisClient.subscribe}, with the settings of a client. */
async function subscribe(
  client: IoredisClient,
  channel: string,
  onMessage: (message: string) => void,
  onSubscribed: () => void,
  signal: AbortSignal,
): Promise<void> {
  // No reconnecting by the client: it does not report when it has subscribed again.
  const giveUp = () => null;
  const subscriber = client.duplicate({
    lazyConnect: true,
    keepAlive: client.options?.keepAlive || KEEP_ALIVE_MS,
    retryStrategy: giveUp,
    sentinelRetryStrategy: giveUp,
  });
  const ended = new Promise<void>((resolve) => {
    subscriber.on("end", () => {
      // A failover detector has connections of its own.
      if (client.options?.failoverDetector) subscriber.disconnect();
      resolve();
    });
  });
  let failure: unknown = null;
  subscriber.on("error", (error) => failure = error); // "end" follows
  subscriber.on("message", (_channel, message) => onMessage(message));
  const close = () => subscriber.status !== "end" && subscriber.disconnect();
  signal.addEventListener("abort", close);
  try {
    await subscriber.connect();
    await subscriber.subscribe(channel);
    onSubscribed();
    await ended;
  } catch (error) {
    throw failure ?? error; // which says only that the connection is closed, if the login is refused
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

/** So many commands at most are written together. */
const MAX_BATCH = 16;

/**
 * Gathers commands into batches, as one write to the socket costs more than all else that a client does for a
 * command. In each turn the first command leaves at once, so that a lone one is not delayed; then 2, 4, 8 and
 * 16 leave together, so that the server works on a batch while the client prepares the next one. With
 * one batch per turn each would wait for the other. Returns a function that puts the next command that the client
 * writes into a batch.
 */
function gatherWrites(client: IoredisClient): () => void {
  /** The stream that holds back the current batch. */
  let corked: IoredisClient["stream"];
  /** The size of the current batch; 0 before the first command of a turn. */
  let size = 0;
  /** How many commands may still join the current batch. */
  let room = 0;
  /** All promises of the turn have run. */
  const endTurn = () => {
    corked?.uncork();
    corked = undefined;
    size = room = 0;
  };
  return () => {
    if (size === 0) {
      size = 1;
      process.nextTick(endTurn);
      return;
    }
    if (room === 0) {
      corked?.uncork();
      size = room = Math.min(2 * size, MAX_BATCH);
      corked = client.stream;
      corked?.cork();
    }
    room--;
  };
}
