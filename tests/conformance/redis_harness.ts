/**
 * Redis under the conformance suite, with any client.
 *
 * @module
 */
import { lockKeys } from "../../redis/keys.ts";
import { type ConformanceRedis, conformanceRedis } from "../servers/redis.ts";
import { makeArena } from "./arena.ts";
import type { Harness } from "./harness.ts";
import type { RedisClientName } from "./open_lock.ts";

/** Redis with one kind of client. */
export function redisHarness(client: RedisClientName, skip?: string): Harness {
  let server: ConformanceRedis | undefined;
  return {
    name: `redis × ${client}`,
    capabilities: { fifo: "global", endsBy: "ttl", steal: true, attach: true, shared: false },
    processes: true,
    ttlMs: 3_000,
    skip,
    async start() {
      server = await conformanceRedis();
      await server.command("PING"); // opens the observer's connection outside of the tests
    },
    async stop() {
      await server?.[Symbol.asyncDispose]();
    },
    arena() {
      const { url, command, keyPrefix: root } = server!;
      const keyPrefix = `${root}${crypto.randomUUID()}:`;
      return Promise.resolve(makeArena({
        spec: ({ ttlMs = 3_000, label }) => ({
          strategy: "redis",
          client,
          url,
          keyPrefix,
          ttlMs,
          label,
        }),
        async lose(lease) {
          await command("DEL", lockKeys(keyPrefix, lease.name).lock);
        },
        residue: () => keysOf(command, keyPrefix),
        close: () => Promise.resolve(),
      }));
    },
  };
}

/** The keys of an arena, but for the last fencing tokens, and tombstones while they last. */
async function keysOf(command: ConformanceRedis["command"], prefix: string): Promise<string[]> {
  const keys: string[] = [];
  let cursor = "0";
  do {
    const reply = await command("SCAN", cursor, "MATCH", `*${prefix}*`, "COUNT", 1_000);
    const [next, found] = reply as [string, string[]];
    keys.push(...found);
    cursor = next;
  } while (cursor !== "0");
  const left: string[] = [];
  for (const key of keys) {
    if (/^holdfast:\{.*\}:f:/s.test(key)) continue;
    const isTombstones = /^holdfast:\{.*\}:w:/s.test(key) &&
      (await command("HKEYS", key) as string[]).every((field) => /^[nt]/.test(field));
    if (!isTombstones) left.push(key);
  }
  return left;
}
