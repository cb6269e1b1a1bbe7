/**
 * The harness that runs the conformance suite on one Redis server, with any client.
 *
 * @module
 */
import { lockKeys } from "../../redis/protocol/keys.ts";
import { type ConformanceRedis, conformanceRedis } from "../servers/redis.ts";
import { keysLeft } from "../redis/residue.ts";
import { KEPT_TTL_MS } from "../time.ts";
import { makeArena } from "./arena.ts";
import type { Harness } from "./harness.ts";
import type { RedisClientName } from "./lock_spec.ts";

/** Redis with one kind of client. */
export function redisHarness(client: RedisClientName, skip?: string): Harness {
  let server: ConformanceRedis | undefined;
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
      server = await conformanceRedis();
      await server.command("PING"); // opens the observer's connection before the first test
    },
    async stop() {
      await server?.[Symbol.asyncDispose]();
    },
    arena() {
      const { url, command, keyPrefix: root } = server!;
      const keyPrefix = `${root}${crypto.randomUUID()}:`;
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
          await command("DEL", lockKeys(keyPrefix, lease.name).lock);
        },
        residue: () => keysLeft(command, keyPrefix),
        close: () => Promise.resolve(),
      }));
    },
  };
}
