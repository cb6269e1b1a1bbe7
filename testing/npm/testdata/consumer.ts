// deno-lint-ignore-file no-console -- this is a script
// A program of a user, for the type check. It is never run.
import type { DistributedLock, Lease } from "@holdfast/lock";
import { LeaseLostError, LockError, MemoryLock } from "@holdfast/lock";
import { runCoordinator } from "@holdfast/lock/adapters/node-cron";
import { fencedHttp, MemoryFences } from "@holdfast/lock/fencing";
import { FileLock } from "@holdfast/lock/file";
import { fetchLock } from "@holdfast/lock/http";
import { expressLock } from "@holdfast/lock/http/express";
import { fastifyLock } from "@holdfast/lock/http/fastify";
import { honoLock } from "@holdfast/lock/http/hono";
import { koaLock } from "@holdfast/lock/http/koa";
import { lambdaLock } from "@holdfast/lock/http/lambda";
import { lockRoutes } from "@holdfast/lock/lock-service";
import { openLock } from "@holdfast/lock/open";
import { lead, runOnce } from "@holdfast/lock/recipes";
import { ExecutionError, Redlock } from "@holdfast/lock/redlock";
import type { RedisClient } from "@holdfast/lock/redis";
import { RedisLock } from "@holdfast/lock/redis";
import { denoRedis } from "@holdfast/lock/redis/deno-redis";
import { ioredis } from "@holdfast/lock/redis/ioredis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { FakeClock, FakeLock } from "@holdfast/lock/testing";
import { drawLocks, recordLocks } from "@holdfast/lock/timeline";
import { webLocks } from "@holdfast/lock/web-locks";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";

const strategies: DistributedLock[] = [
  new MemoryLock({ label: "a" }),
  new FileLock({ dir: "/run/locks" }),
  new ZooKeeperLock("127.0.0.1:2181", { sessionTimeoutMs: 4_000 }),
];

export async function work(redis: RedisClient, more: DistributedLock): Promise<bigint> {
  const locks: DistributedLock = new RedisLock(redis, { ttlMs: 10_000 });
  try {
    const lease: Lease | null = await locks.tryAcquire("a");
    await lease?.release();
    const token: bigint = (await more.acquire("a", { waitMs: 1_000 })).fencingToken;
    return token + await locks.request("b", ({ fencingToken }) => fencingToken);
  } catch (error) {
    if (error instanceof LeaseLostError) console.log(error.reason, error.lockName);
    if (error instanceof LockError) console.log(error.code);
    throw error;
  } finally {
    await locks[Symbol.asyncDispose]();
  }
}

export const [locks = new MemoryLock()] = strategies;
export const handler: (request: Request) => Promise<Response> | Response = fetchLock(locks, {
  key: (request) => new URL(request.url).pathname,
})((_request, lease) => new Response(String(lease.fencingToken)));
export const invoke = lambdaLock(locks, { key: (event: { id: string }) => event.id })(
  (event, _context, lease) => `${event.id} ${lease.name}`,
);
export const around = [koaLock(locks, "k"), honoLock(locks, "k"), expressLock(locks, "k")];
export const fences = fencedHttp(new MemoryFences(), ({ url }) => url);
export const rest = [
  ...[fastifyLock, lockRoutes, denoRedis, ioredis, nodeRedis, runCoordinator, openLock, lead],
  ...[runOnce, ExecutionError, Redlock, FakeClock, FakeLock, drawLocks, recordLocks, webLocks],
];
