/**
 * The Redis clients under test, on their default settings. Each is loaded when it is opened: most processes
 * use one of them.
 *
 * @module
 */
import type { Cluster, Redis } from "ioredis";
import type { RedisClient } from "../../redis/mod.ts";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import type { RedisClientName } from "../conformance/lock_spec.ts";
import { PRIMARY_NAME } from "../servers/redis_sentinel.ts";
import { noteOpen } from "./client_timers.ts";
import { connectLike } from "./deno_redis_like.ts";

/** Not a literal, so that processes with another client do not load it. */
const DENO_REDIS: string = "@db/redis";

/** A client, and how to close it. */
export interface OpenClient {
  readonly client: RedisClient;
  /** Closes it. If it is the last open client, also waits for the timers of its package. */
  close(): Promise<void>;
}

/** Why the real deno-redis cannot be tested here; `undefined` where it can. */
export async function denoRedisSkip(): Promise<string | undefined> {
  const loaded = await import(DENO_REDIS).then(() => true, () => false);
  return loaded ? undefined : "jsr:@db/redis cannot be loaded: JSR is out of reach";
}

/** Connects a client. A cluster client finds all nodes through the one at the URL. */
export async function openRedisClient(name: RedisClientName, url: string): Promise<OpenClient> {
  switch (name) {
    case "node-redis": {
      const { createClient } = await import("redis");
      const client = createClient({ url }).on("error", () => {});
      await client.connect();
      return { client: nodeRedis(client), close: noteOpen(() => client.destroy()) };
    }
    case "node-redis-cluster": {
      const { createCluster } = await import("redis");
      const client = createCluster({ rootNodes: [{ url }] }).on("error", () => {});
      await client.connect();
      return { client: nodeRedis(client), close: noteOpen(() => client.destroy()) };
    }
    case "ioredis": {
      const { Redis } = await import("ioredis");
      const client = new Redis(url).on("error", () => {});
      return { client: ioredis(client), close: noteOpen(() => endIoredis(client)) };
    }
    case "ioredis-cluster": {
      const { Cluster } = await import("ioredis");
      // The connections by which it searches for nodes end without an event, only after this time.
      const redisOptions = { disconnectTimeout: 1 };
      const client = new Cluster([url], { lazyConnect: true, redisOptions });
      client.on("error", () => {});
      await client.connect(); // a client that is closed while it connects may never end
      return { client: ioredis(client), close: noteOpen(() => endIoredisCluster(client)) };
    }
    case "deno-redis": {
      const { connect } = await import(DENO_REDIS);
      const { hostname, port } = new URL(url);
      const client = denoRedis(() => connect({ hostname, port: Number(port || 6379) }));
      return { client, close: () => client.close!() };
    }
    case "deno-redis-like":
    case "deno-redis-like-eventless": {
      const hasEvents = name === "deno-redis-like";
      const client = denoRedis(() => connectLike(url, { hasEvents }));
      return { client, close: () => client.close!() };
    }
  }
}

/** The clients under test that find their primary by sentinels. */
export type SentinelClientName = "node-redis-sentinel" | "ioredis-sentinel";

/** Connects a client to the primary that the sentinels name. */
export async function openSentinelClient(
  name: SentinelClientName,
  sentinels: readonly { readonly host: string; readonly port: number }[],
): Promise<OpenClient> {
  if (name === "ioredis-sentinel") {
    const { Redis } = await import("ioredis");
    const client = new Redis({
      name: PRIMARY_NAME,
      sentinels: [...sentinels],
      failoverDetector: true,
    });
    client.on("error", () => {});
    return { client: ioredis(client), close: noteOpen(() => endIoredis(client)) };
  }
  const { createSentinel } = await import("redis");
  const options = { name: PRIMARY_NAME, sentinelRootNodes: [...sentinels] };
  const client = createSentinel(options).on("error", () => {});
  await client.connect();
  return { client: nodeRedis(client), close: noteOpen(() => client.destroy()) };
}

/** Disconnects, and waits for the end of the connection: otherwise a test reports it as a leak. */
export async function endIoredis(client: Redis): Promise<void> {
  const ended = endOf(client);
  client.disconnect();
  if (!["end", "reconnecting"].includes(client.status)) await ended;
}

/** The same for a cluster client, whose nodes may end after it. */
export async function endIoredisCluster(client: Cluster): Promise<void> {
  const nodes = client.nodes().filter(({ status }) => status !== "wait" && status !== "end");
  const ended = Promise.all([client, ...nodes].map(endOf));
  client.disconnect();
  await ended;
}

function endOf(client: Redis | Cluster): Promise<void> {
  return new Promise((resolve) => client.once("end", () => resolve()));
}
