/**
 * The harness that runs the conformance suite on Redis Cluster, with any client.
 *
 * @module
 */
import { lockKeys } from "../../redis/protocol/keys.ts";
import { keysLeft } from "../redis/residue.ts";
import { type RedisCluster, startRedisCluster } from "../servers/redis_cluster.ts";
import { KEPT_TTL_MS } from "../time.ts";
import { makeArena } from "./arena.ts";
import type { Harness } from "./harness.ts";
import type { RedisClientName } from "./lock_spec.ts";

/** Redis Cluster with one kind of client. */
export function redisClusterHarness(client: RedisClientName, skip?: string): Harness {
  let cluster: RedisCluster | undefined;
  return {
    name: `redis × ${client}`,
    capabilities: {
      fifo: "global",
      endsBy: "ttl",
      steal: true,
      attach: true,
      shared: true,
      limit: true,
      list: true,
    },
    processes: true,
    ttlMs: KEPT_TTL_MS,
    knowsWaitersOfTry: true,
    skip,
    async start() {
      cluster = await startRedisCluster();
    },
    async stop() {
      await cluster?.[Symbol.asyncDispose]();
    },
    arena() {
      const { url, masters, masterOf } = cluster!;
      const keyPrefix = `${crypto.randomUUID()}:`;
      return Promise.resolve(makeArena({
        spec: ({ ttlMs = KEPT_TTL_MS, label, disposeTimeoutMs }) => ({
          strategy: "redis",
          client,
          url,
          keyPrefix,
          ttlMs,
          label,
          disposeTimeoutMs,
        }),
        async lose(lease) {
          const { lock } = lockKeys(keyPrefix, lease.name);
          await (await masterOf(lock)).command("DEL", lock);
        },
        async residue() {
          const left = masters.map(({ command }) => keysLeft(command, keyPrefix));
          return (await Promise.all(left)).flat();
        },
        close: () => Promise.resolve(),
      }));
    },
  };
}
