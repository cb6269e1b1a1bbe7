/**
 * The cycles that are measured, each with the servers that it needs: acquire and release of a free lock,
 * a contended lock (one holds it, one waits in the queue, both release it), and a request of Express. Each
 * cycle uses a new name, unless its title says otherwise.
 *
 * @module
 */
// @ts-types="@types/express"
import express from "express";
import { connectIoredis } from "../../bench/contenders/connections.ts";
import { FileLock } from "../../file/mod.ts";
import { expressLock } from "../../http/express.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { ioredis, type IoredisClient } from "../../redis/clients/ioredis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { listen } from "../../testing/http/listen.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

/** Long enough that nothing is renewed while cycles are counted. */
const TTL_MS = 60_000;

/** A cycle that can run. */
export type Cycle = () => Promise<void>;

/** Starts what a cycle needs, and leaves its disposal to the stack. */
type Open = (stack: AsyncDisposableStack) => Promise<Cycle>;

/** A cycle by its title. */
export interface CycleKind {
  readonly title: string;
  readonly open: Open;
}

/** The cycles by their names on the command line. */
export const CYCLES: Readonly<Record<string, CycleKind>> = {
  redis: {
    title: "Redis, free",
    open: async (stack) => free(await redisLock(stack, (await redis(stack)).url)),
  },
  "redis-contended": {
    title: "Redis, contended",
    async open(stack) {
      const { url } = await redis(stack);
      return contended(await redisLock(stack, url), await redisLock(stack, url));
    },
  },
  zookeeper: {
    title: "ZooKeeper, free",
    open: async (stack) => free(zooKeeperLock(stack, await zooKeeper(stack))),
  },
  "zookeeper-again": {
    title: "ZooKeeper, free, the same name",
    open: async (stack) => free(zooKeeperLock(stack, await zooKeeper(stack)), () => "again"),
  },
  "zookeeper-contended": {
    title: "ZooKeeper, contended",
    async open(stack) {
      const place = await zooKeeper(stack);
      return contended(zooKeeperLock(stack, place), zooKeeperLock(stack, place));
    },
  },
  file: {
    title: "file, free",
    async open(stack) {
      const dir = await makeTempDirectory();
      stack.defer(() => Deno.remove(dir, { recursive: true }));
      return free(stack.use(new FileLock({ dir })));
    },
  },
  express: {
    title: "Express, a request, with MemoryLock",
    open: (stack) => request(stack, stack.use(new MemoryLock())),
  },
  "express-redis": {
    title: "Express, a request, with RedisLock",
    async open(stack) {
      return await request(stack, await redisLock(stack, (await redis(stack)).url));
    },
  },
};

function names(): () => string {
  let last = 0;
  return () => `cycle ${++last}`;
}

function free(lock: DistributedLock, next = names()): Cycle {
  return async () => void await (await lock.acquire(next())).release();
}

function contended(holder: DistributedLock, waiter: DistributedLock): Cycle {
  const next = names();
  return async () => {
    const name = next();
    const lease = await holder.acquire(name);
    const queued = Promise.withResolvers<void>();
    const waiting = waiter.acquire(name, { onWait: () => queued.resolve() });
    await queued.promise;
    await lease.release();
    await (await waiting).release();
  };
}

async function request(stack: AsyncDisposableStack, lock: DistributedLock): Promise<Cycle> {
  const app = express();
  app.post("/", expressLock(lock, { key: names() }), (_request, response) => {
    response.json({ done: true });
  });
  const { url } = stack.use(await listen(app));
  return async () => {
    const response = await fetch(url, { method: "POST" });
    await response.body?.cancel();
    if (response.status !== 200) throw new Error(`The request was answered ${response.status}`);
  };
}

async function redis(stack: AsyncDisposableStack) {
  return stack.use(await startRedis());
}

async function redisLock(stack: AsyncDisposableStack, url: string): Promise<RedisLock> {
  const client = await connectIoredis(url);
  stack.defer(() => client.disconnect());
  return stack.use(
    new RedisLock(ioredis(client as unknown as IoredisClient), { ttlMs: TTL_MS }),
  );
}

async function zooKeeper(stack: AsyncDisposableStack): Promise<string> {
  return stack.use(await startZooKeeper()).connectString;
}

function zooKeeperLock(stack: AsyncDisposableStack, place: string): ZooKeeperLock {
  return stack.use(new ZooKeeperLock(place));
}
