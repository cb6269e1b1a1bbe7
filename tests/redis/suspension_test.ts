/**
 * A machine that has slept: the monotonic clock of its processes stood still while the TTLs on the server went on.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LeaseLostError } from "../../mod.ts";
import { runOnce } from "../../recipes/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";

const TTL_MS = scaled(2_000);

async function open(stack: AsyncDisposableStack, { url }: RedisServer): Promise<RedisLock> {
  const { client, close } = await openRedisClient("ioredis", url);
  stack.defer(close);
  return stack.use(new RedisLock(client, { ttlMs: TTL_MS }));
}

/** Stops the monotonic clock of this process until it is woken; from then on it is behind. */
function sleep(): { wake(): void } & Disposable {
  const now = performance.now.bind(performance);
  const asleepMs = now();
  performance.now = () => asleepMs;
  return {
    wake() {
      const behindMs = now() - asleepMs;
      performance.now = () => now() - behindMs;
    },
    [Symbol.dispose]() {
      performance.now = now;
    },
  };
}

Deno.test("RedisLock ends a lease without autoRenew before the next grant, although the machine has slept", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const [holder, next] = [await open(stack, server), await open(stack, server)];
  using machine = sleep();
  const lease = await holder.acquire("n", { autoRenew: false });
  const { signal } = lease;
  await waitUntil("most of the TTL is over", async () => {
    return Number(await server.command("PTTL", "lock:n")) < TTL_MS / 2;
  });
  machine.wake();
  assertEquals(lease.isHeld, false);
  await waitUntil("the lease is proven again", () => lease.isHeld || signal.aborted);
  await next.acquire("n");
  assertThrows(() => lease.throwIfLost(), LeaseLostError);
  await waitUntil("its signal aborts", () => signal.aborted);
});

/** The machine has slept for so long, by the wall clock alone: no timer of this process has run late. */
function stepWall(ms: number): Disposable {
  const now = Date.now.bind(Date);
  Date.now = () => now() + ms;
  return {
    [Symbol.dispose]() {
      Date.now = now;
    },
  };
}

Deno.test("RedisLock resolves with a lease that is held, although the machine slept before the answer", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const lock = await open(stack, server);
  await (await lock.acquire("n")).release(); // it is connected
  for (const ask of ["acquire", "tryAcquire"] as const) {
    const acquiring = lock[ask]("n");
    stack.use(stepWall(LONG_TTL_MS));
    const lease = await acquiring;
    lease!.throwIfLost();
    await lease!.release();
  }
});

Deno.test("RedisLock resolves with a lease that is held, although the machine slept before the grant message", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const [holder, next] = [await open(stack, server), await open(stack, server)];
  for (const sleptMs of [0, LONG_TTL_MS]) { // when the first wait is over, its instance listens to messages
    const lease = await holder.acquire("n");
    const queued = Promise.withResolvers<void>();
    const acquiring = next.acquire("n", { onWait: () => queued.resolve() });
    await queued.promise;
    stack.use(stepWall(sleptMs));
    await lease.release();
    const granted = await acquiring;
    granted.throwIfLost();
    await granted.release();
  }
});

Deno.test("runOnce() rejects when the machine has slept in its work, and another process has got the lock", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const [holder, next] = [await open(stack, server), await open(stack, server)];
  const options = { keepMs: LONG_TTL_MS }; // no renewal comes in between
  const run = runOnce(holder, "report", options, async () => {
    await server.command("DEL", "lock:report"); // its TTL is over
    assertEquals(await runOnce(next, "report", options, () => "sent"), {
      ran: true,
      value: "sent",
    });
    stack.use(stepWall(LONG_TTL_MS));
  });
  await assertRejects(() => run, LeaseLostError);
});

Deno.test("RedisLock.request() rejects when the machine has slept, and no server tells whether the lock was held", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const holder = await open(stack, server);
  const call = holder.request("n", async () => {
    await server.kill();
    stack.use(stepWall(LONG_TTL_MS));
  });
  await assertRejects(() => call, LeaseLostError);
});

Deno.test("runOnce() does not wait for as long as keepMs for a server that could prove its lock", async () => {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const holder = await open(stack, server);
  const run = runOnce(holder, "report", { keepMs: 10 * LONG_TTL_MS }, async () => {
    await server.kill();
    stack.use(stepWall(10 * LONG_TTL_MS));
  });
  await assertRejects(() => within("it gives up", run), LeaseLostError);
});
