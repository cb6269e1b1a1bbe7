// Takes turns under a lock of each strategy: what bundlers bundle.
import { MemoryLock } from "@holdfast/lock";
import { FileLock } from "@holdfast/lock/file";
import { RedisLock } from "@holdfast/lock/redis";
import { ioredis } from "@holdfast/lock/redis/ioredis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
import { Redis } from "ioredis";
import { createClient } from "redis";

const STRATEGIES = {
  memory: () => takeTurns(new MemoryLock()),
  file: ({ dir }) => takeTurns(new FileLock({ dir })),
  async "redis, node-redis"({ redis }) {
    const client = createClient({ url: redis }).on("error", () => {});
    await client.connect();
    try {
      return await takeTurns(new RedisLock(nodeRedis(client), { keyPrefix: "a:" }));
    } finally {
      await client.close();
    }
  },
  async "redis, ioredis"({ redis }) {
    const client = new Redis(redis);
    try {
      return await takeTurns(new RedisLock(ioredis(client), { keyPrefix: "b:" }));
    } finally {
      client.disconnect();
    }
  },
  zookeeper: ({ zookeeper }) => takeTurns(new ZooKeeperLock(zookeeper)),
};

/** Returns "ok" for each strategy, or what went wrong. */
export async function useAll(places) {
  const outcomes = {};
  for (const [name, use] of Object.entries(STRATEGIES)) {
    try {
      outcomes[name] = await use(places);
    } catch (error) {
      outcomes[name] = `${error}: ${error.cause}`;
    }
  }
  return outcomes;
}

async function takeTurns(locks) {
  try {
    const first = await locks.acquire("turns");
    if (await locks.tryAcquire("turns") !== null) return "two holders";
    const waiting = locks.acquire("turns", { waitMs: 60_000 });
    await first.release();
    const second = await waiting;
    await second.release();
    return second.fencingToken > first.fencingToken ? "ok" : "the token has not grown";
  } finally {
    await locks[Symbol.asyncDispose]();
  }
}
