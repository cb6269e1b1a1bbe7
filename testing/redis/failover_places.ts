/**
 * Servers with a replica that takes over, by Sentinel or in Cluster: when it is told to, or when the primary
 * has crashed.
 *
 * @module
 */
import { ioredis } from "../../redis/clients/ioredis.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import type { RedisServer } from "../servers/redis.ts";
import { startRedisCluster } from "../servers/redis_cluster.ts";
import { PRIMARY_NAME, startRedisSentinels } from "../servers/redis_sentinel.ts";
import { connectResp } from "../servers/resp.ts";
import { waitUntil } from "../servers/wait.ts";
import { noteOpen } from "./client_timers.ts";
import { scaled } from "../time.ts";
import { endIoredis, type OpenClient, openRedisClient, openSentinelClient } from "./clients.ts";

/** The name of the lock whose server fails over, and what the names of others there begin with. */
export const NAME = "{n}";

/** Longer than a busy machine stops a server: otherwise the replica takes over unasked. */
const NODE_TIMEOUT_MS = scaled(3_000);
/** For twice that time after a vote the masters vote for no other replica of the same master. */
const NEXT_VOTE_MS = 2.5 * NODE_TIMEOUT_MS;

/**
 * The clients under test; `ioredis-sentinel-untold` lacks a failover detector, `ioredis-sentinel-min-replicas`
 * has servers that refuse writes without a replica.
 */
export type FailoverClient =
  | "ioredis-sentinel"
  | "ioredis-sentinel-untold"
  | "ioredis-sentinel-min-replicas"
  | "node-redis-sentinel"
  | "ioredis-cluster"
  | "node-redis-cluster";

/** The servers of one test. */
export interface FailoverPlace extends AsyncDisposable {
  open(name: FailoverClient): Promise<OpenClient>;
  /** The server that has the lock. */
  primary(): RedisServer;
  /** Begins a planned failover. */
  failOver(): Promise<void>;
  /** Resolves when the replica accepts writes. From then on it is the primary. */
  promoted(): Promise<void>;
  /** Resolves when the server that was the primary before is a replica. */
  demoted(): Promise<void>;
}

export async function openFailoverPlace(client: FailoverClient): Promise<FailoverPlace> {
  if (!client.includes("sentinel")) return await openCluster();
  return await openSentinels(client.endsWith("min-replicas"));
}

async function hasRole({ command }: RedisServer, role: "master" | "slave"): Promise<boolean> {
  // Connections are closed when the role of a server changes.
  const info = () => command("INFO", "replication");
  return String(await info().catch(info).catch(() => "")).includes(`role:${role}`);
}

async function openSentinels(needsReplica: boolean): Promise<FailoverPlace> {
  const servers = await startRedisSentinels();
  if (needsReplica) {
    for (const { command } of [servers.primary, servers.replica]) {
      await command("CONFIG", "SET", "min-replicas-to-write", 1);
    }
  }
  const { sentinels } = servers;
  let [from, to] = [servers.primary, servers.replica];
  return {
    primary: () => from,
    async open(name) {
      if (name !== "ioredis-sentinel-untold") {
        const told = name === "node-redis-sentinel" ? name : "ioredis-sentinel";
        return await openSentinelClient(told, sentinels);
      }
      const { Redis } = await import("ioredis");
      const client = new Redis({ name: PRIMARY_NAME, sentinels: [...sentinels] });
      client.on("error", () => {});
      return { client: ioredis(client), close: noteOpen(() => endIoredis(client)) };
    },
    async failOver() {
      const { host, port } = sentinels[0]!;
      await waitUntil("the sentinels may fail over again", async () => {
        using sentinel = await connectResp(`redis://${host}:${port}`);
        return await sentinel.command("SENTINEL", "FAILOVER", PRIMARY_NAME).catch(() => "") ===
          "OK";
      });
    },
    async promoted() {
      await waitUntil("the replica is promoted", () => hasRole(to, "master"));
      [from, to] = [to, from];
    },
    async demoted() {
      await waitUntil("the old primary is a replica", () => hasRole(to, "slave"));
      await servers.promoted(from);
    },
    [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose](),
  };
}

async function openCluster(): Promise<FailoverPlace> {
  const args = ["--cluster-node-timeout", String(NODE_TIMEOUT_MS)];
  args.push("--repl-diskless-sync-delay", "0");
  const cluster = await startRedisCluster({ args });
  try {
    let from = await cluster.masterOf(lockKeys("lock:", NAME).lock);
    let to = await cluster.addReplica(from);
    let votedMs = -Infinity;
    return {
      primary: () => from,
      open: (name) => openRedisClient(name as "ioredis-cluster", cluster.url),
      async failOver() {
        await waitUntil("the masters vote", () => performance.now() > votedMs + NEXT_VOTE_MS);
        await to.command("CLUSTER", "FAILOVER");
      },
      async promoted() {
        await waitUntil("the replica is promoted", () => hasRole(to, "master"));
        votedMs = performance.now();
        [from, to] = [to, from];
      },
      async demoted() {
        await waitUntil("the old master is a replica", () => hasRole(to, "slave"));
        await waitUntil("it is in sync", async () => {
          const info = await to.command("INFO", "replication").catch(() => "");
          return String(info).includes("link_status:up");
        });
      },
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    };
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}
