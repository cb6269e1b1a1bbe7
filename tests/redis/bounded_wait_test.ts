/**
 * Waits that `waitMs` bounds, when Redis does not answer at their end.
 */
import { assert, assertEquals, assertInstanceOf, assertLess, assertMatch } from "@std/assert";
import { LockTimeoutError, LockUnavailableError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { assertUnavailable } from "../../testing/conformance/bounded_outage.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { play } from "../../testing/redis/race_stage.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";

const OUTAGE_MS = 60_000;

type Scene = (lock: RedisLock, other: RedisLock, proxy: FaultProxy) => Promise<void>;

/** Plays a scene in which `lock` is behind a proxy, and `other` is not. */
async function behindProxy(name: RedisClientName, scene: Scene): Promise<void> {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const far = await openRedisClient(name, `redis://${proxy.hostname}:${proxy.port}`);
  const near = await openRedisClient("node-redis", server.url);
  try {
    const options = { unavailableAfterMs: OUTAGE_MS, disposeTimeoutMs: 100 };
    await using lock = new RedisLock(far.client, options);
    await using other = new RedisLock(near.client);
    await scene(lock, other, proxy);
    await proxy.refuse(false);
    proxy.heal();
    await lock.query("n"); // a client that is closed while it reconnects leaves a timer behind
  } finally {
    proxy.cutAll();
    await far.close();
    await near.close();
  }
}

for (const name of ["node-redis", "ioredis"] as const) {
  Deno.test(`RedisLock × ${name}: acquire() and tryAcquire() with waitMs report an outage that began during the wait`, () =>
    behindProxy(name, async (lock, other, proxy) => {
      const held = await other.acquire("n");
      await assertUnavailable(lock, () => proxy.blackHole("both"));
      assertEquals(await held.release(), true);
    }));

  Deno.test(`RedisLock × ${name}: acquire() and tryAcquire() with waitMs report an outage that lasts for the whole wait`, () =>
    behindProxy(name, async (lock, _other, proxy) => {
      await (await lock.acquire("n")).release();
      proxy.blackHole("both");
      await assertUnavailable(lock, () => {});
    }));

  Deno.test(`RedisLock × ${name}: acquire() and tryAcquire() with waitMs report a server that refuses connections`, () =>
    behindProxy(name, async (lock, _other, proxy) => {
      await (await lock.acquire("n")).release();
      await proxy.refuse(true);
      proxy.cutAll();
      await assertUnavailable(lock, () => {});
    }));
}

Deno.test("RedisLock.tryAcquire() with waitMs gets a free lock although the first answer is late", () =>
  play(async ({ lock, gates }) => {
    const gate = new Gate();
    gates.onReply = gate.first("ask");
    const taking = lock.tryAcquire("n", { waitMs: 1 });
    const endMs = performance.now() + 20;
    await gate.arrived;
    await waitUntil("the wait is over", () => performance.now() > endMs);
    gate.open();
    const lease = await taking;
    assert(lease !== null);
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock.acquire() with waitMs blames Redis if its ask is not answered, and nothing else", () =>
  play(async ({ lock, gates }) => {
    await (await lock.acquire("n")).release();
    const open = Promise.withResolvers<void>();
    gates.onRequest = () => open.promise;
    const error = await lock.acquire("n", { waitMs: 1 }).catch((error) => error);
    open.resolve();
    assertInstanceOf(error, LockUnavailableError);
    assertMatch(error.message, /^Cannot reach Redis for lock "n": it has not answered in time/);
  }));

Deno.test("RedisLock.acquire() with waitMs blames this process if its ask is not answered although Redis answers", () =>
  play(async ({ lock, other, gates }) => {
    const outcome = async () => {
      const gate = new Gate();
      gates.onRequest = gate.first("ask");
      const error = await lock.acquire("n", { waitMs: 1 }).catch((error) => error);
      gate.open();
      return error;
    };
    const error = await outcome();
    assertInstanceOf(error, LockUnavailableError);
    assertMatch(error.message, /the service answers, but this process could not send the call/);
    await using _held = await other.acquire("n");
    assertInstanceOf(await outcome(), LockTimeoutError, "somebody else had the lock");
  }));

Deno.test("RedisLock.acquire() with waitMs and an owner id waits, and a later call of the id gets the lock", () =>
  play(async ({ lock, other }) => {
    const held = await other.acquire("n");
    const error = await lock.acquire("n", { ownerId: "job-7", waitMs: 100 }).catch((e) => e);
    assertInstanceOf(error, LockTimeoutError);
    const patient = lock.acquire("n", { ownerId: "job-7" });
    const first = lock.tryAcquire("m", { ownerId: "job-8", waitMs: 100 });
    await (await first)!.release();
    assertEquals(await held.release(), true);
    await (await within("the other call is granted", patient)).release();
  }));

Deno.test("RedisLock: waits for one lock that end together ask for its holder once, not each", () =>
  play(async ({ lock, other, gates }) => {
    const held = await other.acquire("n");
    let waits = 0;
    const options = { waitMs: scaled(2_000), onWait: () => void waits++ };
    const calls = Array.from({ length: 200 }, () => lock.tryAcquire("n", options));
    await waitUntil("all wait", () => waits >= 200);
    assertEquals(new Set(await Promise.all(calls)), new Set([null]));
    const looks = gates.sent.filter(({ script }) => script === "query").length;
    assertLess(looks, 50);
    assertEquals(await held.release(), true);
  }));
