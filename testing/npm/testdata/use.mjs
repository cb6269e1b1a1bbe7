// deno-lint-ignore-file no-console -- this is a script
// Uses what needs no server, and prints a line for each part that works.
import assert from "node:assert/strict";
import { LeaseLostError, LockSetupError, MemoryLock } from "@holdfast/lock";
import { MemoryFences } from "@holdfast/lock/fencing";
import { fetchLock } from "@holdfast/lock/http";
import { expressLock } from "@holdfast/lock/http/express";
import { fastifyLock } from "@holdfast/lock/http/fastify";
import { honoLock } from "@holdfast/lock/http/hono";
import { koaLock } from "@holdfast/lock/http/koa";
import { lambdaLock } from "@holdfast/lock/http/lambda";
import { lockRoutes } from "@holdfast/lock/lock-service";
import { RedisLock } from "@holdfast/lock/redis";
import { denoRedis } from "@holdfast/lock/redis/deno-redis";
import { ioredis } from "@holdfast/lock/redis/ioredis";
import { nodeRedis } from "@holdfast/lock/redis/node-redis";
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";

const locks = new MemoryLock({ label: "smoke" });
const options = { key: "k" };

const parts = {
  async memory() {
    const lease = await locks.acquire("a");
    assert.equal(await locks.tryAcquire("a"), null);
    await assert.rejects(locks.acquire("a", { waitMs: 20 }), { code: "ERR_LOCK_TIMEOUT" });
    await lease.release();
    assert.equal(await locks.request("a", ({ name }) => name), "a");
  },
  async loss() {
    const lease = await locks.acquire("lost", { maxHoldMs: 20 });
    const { signal } = lease;
    // On a busy machine it is lost before it is looked at.
    if (!signal.aborted) await new Promise((resolve) => signal.onabort = resolve);
    assert(signal.reason instanceof LeaseLostError);
    assert.throws(() => lease.throwIfLost(), LeaseLostError);
  },
  async fetch() {
    const handler = fetchLock(locks, options)(() => new Response("done"));
    const response = await handler(new Request("http://localhost/"));
    assert.deepEqual([response.status, await response.text()], [200, "done"]);
  },
  async busyFetch() {
    const lease = await locks.acquire("k");
    const handler = fetchLock(locks, { ...options, waitMs: 30 })(() => new Response("done"));
    assert.equal((await handler(new Request("http://localhost/"))).status, 409);
    await lease.release();
  },
  async lambda() {
    const handler = lambdaLock(locks, options)((_event, _context, { name }) => name);
    assert.equal(await handler({}, { getRemainingTimeInMillis: () => 5_000 }), "k");
  },
  frameworks() {
    for (const around of [expressLock, koaLock, honoLock]) {
      assert.equal(typeof around(locks, options), "function");
    }
    assert.equal(typeof fastifyLock, "function");
  },
  fences() {
    const fences = new MemoryFences();
    assert.equal(fences.raise("a", 2n), true);
    assert.equal(fences.raise("a", 1n), false);
  },
  async redis() {
    const redis = new RedisLock(denoRedis(() => Promise.reject(new Error("no server"))), {
      unavailableAfterMs: 50,
    });
    assert.equal(typeof lockRoutes, "function");
    await assert.rejects(redis.acquire("a"), { code: "ERR_LOCK_UNAVAILABLE" });
    await redis[Symbol.asyncDispose]();
    for (const adapt of [ioredis, nodeRedis]) assert.throws(() => adapt({}), LockSetupError);
  },
  zookeeperWithoutClient() {
    assert.throws(() => new ZooKeeperLock("127.0.0.1:1"), (error) => {
      assert(error instanceof LockSetupError);
      assert.match(error.message, /npm install node-zookeeper-client@1\.1\.3/);
      return true;
    });
  },
};

for (const [name, part] of Object.entries(parts)) {
  await part();
  console.log(`ok ${name}`);
}
await locks[Symbol.asyncDispose]();
console.log("end");
