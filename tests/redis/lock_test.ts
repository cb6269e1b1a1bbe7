import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LeaseLostError, LockSetupError, LockUnavailableError } from "../../mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { warmUp } from "../../testing/redis/memory_check.ts";
import {
  CONDITION_BOUND_MS,
  ENDING_TTL_MS,
  KEPT_TTL_MS,
  LONG_TTL_MS,
  scaled,
} from "../../testing/time.ts";

/** A server, and locks on it that are disposed with it. */
async function open(options: { args?: string[] } = {}) {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis(options));
  const lock = async (lockOptions: RedisLockOptions = {}, url = server.url) => {
    const { client, close } = await openRedisClient("node-redis", url);
    stack.defer(close);
    return stack.use(new RedisLock(client, lockOptions));
  };
  /** A lock behind a proxy that outlives it. */
  const proxied = async (lockOptions: RedisLockOptions = {}) => {
    const proxy = stack.use(startProxy(server));
    return { proxy, lock: await lock(lockOptions, `redis://${proxy.hostname}:${proxy.port}`) };
  };
  return { server, lock, proxied, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Resolves when the call with this listener waits in the queue. */
function waitReport(): { onWait: () => void; waiting: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { onWait: resolve, waiting: promise };
}

async function calls(server: RedisServer, command: string): Promise<number> {
  const info = String(await server.command("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0);
}

Deno.test("RedisLock sends one command to acquire and one to release", async () => {
  await using redis = await open();
  const { proxy, lock } = await redis.proxied({ ttlMs: LONG_TTL_MS });
  await warmUp(lock, proxy);
  await redis.server.command("CONFIG", "RESETSTAT");
  const order: string[] = [];
  proxy.onRequest = () => (order.push("request"), "pass");
  proxy.onReply = () => (order.push("reply"), "pass");
  await (await lock.acquire("n")).release();
  assertEquals(order, ["request", "reply", "request", "reply"]);
  assertEquals(await calls(redis.server, "evalsha"), 2);
  assertEquals(await calls(redis.server, "eval"), 0);
});

Deno.test("RedisLock sends its scripts again after SCRIPT FLUSH", async () => {
  await using redis = await open();
  const lock = await redis.lock();
  for (let i = 0; i < 3; i++) {
    await redis.server.command("SCRIPT", "FLUSH");
    const lease = await lock.acquire("n");
    await redis.server.command("SCRIPT", "FLUSH");
    await lease.renew();
    await redis.server.command("SCRIPT", "FLUSH");
    assertEquals(await lease.release(), true);
  }
});

Deno.test("RedisLock excludes a plain SET NX PX on the same key, and is excluded by it", async () => {
  await using redis = await open();
  const lock = await redis.lock({ keyPrefix: "" });
  const lease = await lock.acquire("n");
  assertEquals(await redis.server.command("SET", "n", "foreign", "NX", "PX", 1_000), null);
  await lease.release();
  // A key without a TTL: the waiter must neither time it out nor miss its deletion.
  assertEquals(await redis.server.command("SET", "n", "foreign", "NX"), "OK");
  assertEquals(await lock.tryAcquire("n"), null);
  assertEquals(await lock.query("n"), {
    name: "n",
    holders: [{ mode: "exclusive" }],
    holderCount: 1,
    waiters: [],
    waiterCount: 0,
  });
  const { onWait, waiting } = waitReport();
  const wait = lock.acquire("n", { onWait });
  await waiting;
  await redis.server.command("DEL", "n");
  await using next = await within("the foreign lock is gone", wait);
  assert(next.fencingToken > lease.fencingToken);
});

Deno.test("RedisLock.attach() reads its options once, also those of a prototype", async () => {
  await using redis = await open();
  const [a, b] = [await redis.lock(), await redis.lock()];
  await a.acquire("n", { ownerId: "job-7", outlivesDisposal: true });
  class Terms {
    reads = 0;
    get maxHoldMs() {
      return this.reads++ === 0 ? LONG_TTL_MS : "abc";
    }
    get ttlMs() {
      return LONG_TTL_MS;
    }
  }
  const terms = new Terms();
  const options = Object.create(terms, { reads: { enumerable: false, value: 0, writable: true } });
  await using lease = await b.attach("n", "job-7", options);
  assert(
    lease!.remainingMs > KEPT_TTL_MS,
    `${lease!.remainingMs} ms: the TTL is that of the options`,
  );
  assertEquals(options.reads, 1);
});

Deno.test("RedisLock.attach() takes over a lease by its owner id, and the earlier lease object is lost", async () => {
  await using redis = await open();
  const [a, b] = [
    await redis.lock({ ttlMs: KEPT_TTL_MS }),
    await redis.lock({ ttlMs: KEPT_TTL_MS }),
  ];
  assertEquals(await b.attach("n", "job-7"), null);
  const first = await a.acquire("n", { ownerId: "job-7" });
  const { signal } = first;
  assertEquals(first.ownerId, "job-7");
  assertEquals(await b.attach("n", "job-8"), null);
  assertEquals(await b.attach("n", "job-"), null);
  assertEquals(await b.attach("n", "job-7#0123456789abcdef"), null);
  const second = await b.attach("n", "job-7");
  assert(second !== null && second.fencingToken > first.fencingToken);
  await within("the earlier lease learns of it", aborted(signal));
  assertEquals((signal.reason as LeaseLostError).reason, "stolen");
  assertEquals(await first.release(), false);
  second.throwIfLost();
  assertEquals(await second.release(), true);
});

Deno.test("RedisLock.acquire() gets a held lock again for the same owner id, as after a restart", async () => {
  await using redis = await open();
  const [a, b] = [
    await redis.lock({ ttlMs: LONG_TTL_MS }),
    await redis.lock({ ttlMs: LONG_TTL_MS }),
  ];
  const lost = await a.acquire("n", { ownerId: "job-7", autoRenew: false });
  await using again = await b.acquire("n", { ownerId: "job-7" });
  again.throwIfLost();
  assertEquals(await lost.release(), false);
  again.throwIfLost();
});

Deno.test("RedisLock keeps a lease with outlivesDisposal on the server when it is disposed, and another instance attaches to it", async () => {
  await using redis = await open();
  const [a, b] = [
    await redis.lock({ ttlMs: LONG_TTL_MS }),
    await redis.lock({ ttlMs: LONG_TTL_MS }),
  ];
  const options = { ownerId: "job-7", autoRenew: false, outlivesDisposal: true };
  const first = await a.acquire("kept", options);
  const { signal } = first;
  await a.acquire("freed", { ownerId: "job-7" });
  await a[Symbol.asyncDispose]();
  assertEquals([first.remainingMs, signal.reason.reason], [0, "disposed"]);
  assertEquals(await first.release(), false);
  assertEquals((await b.query("freed")).holders, []);
  assertEquals(await b.tryAcquire("kept"), null);
  const again = await b.attach("kept", "job-7");
  assert(again !== null && again.fencingToken > first.fencingToken);
  assertEquals(await again.release(), true);
  const wrong = { outlivesDisposal: 1 as unknown as boolean };
  await assertRejects(() => b.acquire("kept", wrong), TypeError);
});

Deno.test("RedisLock keeps an earlier lease of the owner id when an attach or acquire call is cut off", async () => {
  await using redis = await open();
  const holder = await redis.lock({ ttlMs: LONG_TTL_MS });
  const kept = { ownerId: "job-7", autoRenew: false, outlivesDisposal: true };
  type Call = (lock: RedisLock, name: string, signal: AbortSignal) => Promise<unknown>;
  const calls: Call[] = [
    (lock, name, signal) => lock.attach(name, "job-7", { signal }),
    (lock, name, signal) => lock.tryAcquire(name, { ...kept, signal }),
    (lock, name, signal) => lock.acquire(name, { ...kept, signal }),
  ];
  for (const [i, call] of calls.entries()) {
    for (const isDisposed of [false, true]) {
      const name = `${i} ${isDisposed}`;
      const first = await holder.acquire(name, kept);
      const { proxy, lock } = await redis.proxied();
      await lock.query(name); // connects the client
      let isDone = false;
      const answer = Promise.withResolvers<void>();
      proxy.onReply = () => (isDone = true, proxy.onReply = undefined, { until: answer.promise });
      const abort = new AbortController();
      const cut = assertRejects(() => call(lock, name, abort.signal), DOMException);
      await waitUntil("the server has taken it over", () => isDone);
      const disposed = isDisposed ? lock[Symbol.asyncDispose]() : abort.abort();
      await cut;
      answer.resolve();
      await disposed;
      await lock[Symbol.asyncDispose](); // waits for its clean-ups
      assertEquals(await holder.tryAcquire(name), null, "nobody else gets it");
      const again = await (await redis.lock()).attach(name, "job-7");
      assert(again!.fencingToken > first.fencingToken);
      assertEquals(await again!.release(), true);
    }
  }
});

Deno.test("RedisLock.acquire() uses the TTL of the call instead of the default", async () => {
  await using redis = await open();
  const [a, b] = [await redis.lock(), await redis.lock()];
  const options = { ownerId: "job-7", autoRenew: false };
  const lease = await a.acquire("n", { ...options, ttlMs: KEPT_TTL_MS });
  const leftMs = () => redis.server.command("PTTL", "lock:n").then(Number);
  const isShort = (ms: number) => ms > 0 && ms <= KEPT_TTL_MS;
  assert(isShort(lease.remainingMs) && isShort(await leftMs()));
  await lease.renew(); // uses the TTL of the lease
  assert(isShort(lease.remainingMs) && isShort(await leftMs()));
  const longer = await b.attach("n", "job-7", { autoRenew: false, ttlMs: LONG_TTL_MS });
  assert(longer!.remainingMs > LONG_TTL_MS / 2 && await leftMs() > LONG_TTL_MS / 2);
  for (const outlivesDisposal of [true, false]) {
    const brief = { autoRenew: false, outlivesDisposal, ttlMs: KEPT_TTL_MS };
    const shorter = await (await redis.lock()).attach("n", "job-7", brief);
    assert(
      shorter!.remainingMs > LONG_TTL_MS / 2 && await leftMs() > LONG_TTL_MS / 2,
      "nothing is shortened",
    );
    const attachedMs = await leftMs();
    await waitUntil("time has passed", async () => await leftMs() < attachedMs - 20);
    const beforeMs = await leftMs();
    await shorter!.renew();
    assert(await leftMs() <= beforeMs, "a renewal asks for the TTL of its own call");
  }
  for (const ttlMs of [9, 1.5, 2 ** 31]) {
    await assertRejects(() => a.acquire("n", { ttlMs }), RangeError);
  }
});

Deno.test("RedisLock keeps the fencing token for longer than the lock, also after a handoff with a long TTL", async () => {
  await using redis = await open();
  const [a, b] = [await redis.lock(), await redis.lock()];
  const { token, lock } = lockKeys("lock:", "n");
  const held = await a.acquire("n");
  const { onWait, waiting } = waitReport();
  const wait = b.acquire("n", { ttlMs: 60 * LONG_TTL_MS, autoRenew: false, onWait });
  await waiting;
  await held.release();
  await using lease = await within("the waiter is granted", wait);
  const leftMs = async (key: string) => Number(await redis.server.command("PTTL", key));
  const lockMs = await leftMs(lock);
  assert(lockMs > 59 * LONG_TTL_MS && await leftMs(token) > lockMs);
  assertEquals((await a.query("n")).holders[0]!.fencingToken, lease.fencingToken);
  await redis.server.command("DEL", token);
  assertEquals((await a.query("n")).holders.map((holder) => "fencingToken" in holder), [false]);
});

Deno.test("RedisLock issues growing fencing tokens when the server has lost the last one", async () => {
  await using redis = await open();
  const lock = await redis.lock({ ttlMs: ENDING_TTL_MS });
  const lost = await lock.acquire("n");
  await redis.server.command("FLUSHALL");
  await using next = await lock.acquire("n");
  assert(next.fencingToken > lost.fencingToken);
  await within("the loss is seen", aborted(lost.signal));
});

Deno.test("RedisLock keeps its lease and its waiters during a short outage", async () => {
  await using redis = await open({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
  const options = { ttlMs: LONG_TTL_MS, unavailableAfterMs: CONDITION_BOUND_MS };
  const [a, b] = [await redis.lock(options), await redis.lock(options)];
  const lease = await a.acquire("n");
  const wait = b.acquire("n");
  await redis.server.kill("SIGKILL");
  await redis.server.restart();
  await lease.renew();
  assertEquals(await lease.release(), true);
  await using next = await within("the waiter is granted", wait);
  assert(next.fencingToken > lease.fencingToken);
});

Deno.test("RedisLock rejects with LockUnavailableError and reports no held lock when the server is down", async () => {
  await using redis = await open();
  const lock = await redis.lock({ unavailableAfterMs: 300 });
  await redis.server.kill("SIGKILL");
  for (const call of [() => lock.acquire("n"), () => lock.tryAcquire("n"), () => lock.query("n")]) {
    const error = await assertRejects(call, LockUnavailableError);
    assertEquals(error.lockName, "n");
  }
  await redis.server.restart(); // else the reconnect timer of the client package is a leak
  await waitUntil("the client is back", () => lock.query("n").then(() => true, () => false));
});

Deno.test("RedisLock names the error code when the server refuses", async () => {
  await using redis = await open();
  const lock = await redis.lock({ unavailableAfterMs: scaled(1_000) });
  await redis.server.command("RPUSH", "lock:list", "x");
  const wrong = await assertRejects(() => lock.acquire("list"), LockSetupError, "WRONGTYPE");
  assert(wrong.cause instanceof Error);
  await (await lock.acquire("n")).release();
  await redis.server.command("CONFIG", "SET", "maxmemory", 1);
  await assertRejects(() => lock.tryAcquire("full"), LockUnavailableError, "OOM");
  assertEquals(await redis.server.command("EXISTS", "lock:full"), 0);
  await redis.server.command("CONFIG", "SET", "maxmemory", 0);
  await using lease = await lock.acquire("full");
  lease.throwIfLost();
});

Deno.test("RedisLock renews and releases a lease while the server has no free memory", async () => {
  await using redis = await open();
  const lock = await redis.lock();
  const lease = await lock.acquire("n");
  await redis.server.command("CONFIG", "SET", "maxmemory", 1);
  await lease.renew();
  assertEquals(await lease.release(), true);
});

Deno.test("RedisLock frees the lock when a call is aborted during its request", async () => {
  await using redis = await open();
  const { proxy, lock } = await redis.proxied({ ttlMs: LONG_TTL_MS });
  await warmUp(lock, proxy);
  let taken = false;
  const answers = Promise.withResolvers<void>();
  proxy.onReply = () => (taken = true, { until: answers.promise });
  const abort = new AbortController();
  const wait = lock.acquire("n", { signal: abort.signal });
  wait.catch(() => {});
  await waitUntil("the server has executed it", () => taken);
  assertEquals(await redis.server.command("EXISTS", "lock:n"), 1);
  abort.abort("enough");
  assertEquals(await wait.then(() => null, (reason) => reason), "enough");
  answers.resolve();
  await waitUntil("the clean-up is done", async () => {
    return await redis.server.command("EXISTS", "lock:n") === 0;
  });
});

Deno.test("RedisLock frees the lock when it is disposed during a request", async () => {
  await using redis = await open();
  const { proxy, lock } = await redis.proxied({
    ttlMs: LONG_TTL_MS,
    disposeTimeoutMs: CONDITION_BOUND_MS,
  });
  await warmUp(lock, proxy);
  let taken = false;
  const answers = Promise.withResolvers<void>();
  proxy.onReply = () => (taken = true, { until: answers.promise });
  const wait = lock.acquire("n");
  wait.catch(() => {});
  await waitUntil("the server has executed it", () => taken);
  const disposed = lock[Symbol.asyncDispose]();
  answers.resolve();
  await disposed;
  assertEquals((await assertRejects(() => wait, DOMException)).name, "AbortError");
  assertEquals(await redis.server.command("EXISTS", "lock:n"), 0);
});

Deno.test("RedisLock rejects with LockUnavailableError when every grant arrives after its deadline", async () => {
  await using redis = await open();
  const { proxy, lock } = await redis.proxied({ ttlMs: 200, unavailableAfterMs: 1_500 });
  await (await lock.acquire("warm-up")).release();
  proxy.onReply = () => ({ delayMs: 300 });
  // Two names: until the first call has cleaned up, it holds its lock.
  const calls = [() => lock.acquire("a"), () => lock.tryAcquire("b")];
  const rejected = calls.map((call) => assertRejects(call, LockUnavailableError));
  await within("they give up", Promise.all(rejected));
  proxy.onReply = undefined;
});

Deno.test("RedisLock ignores foreign messages on its inbox", async () => {
  await using redis = await open();
  const a = await redis.lock();
  // An exception in its listener would end the process.
  const { client, close } = await openRedisClient("ioredis", redis.server.url);
  await using stack = new AsyncDisposableStack();
  stack.defer(close);
  const b = stack.use(new RedisLock(client));
  const held = await a.acquire("n");
  const wait = b.acquire("n");
  const channels = () => redis.server.command("PUBSUB", "CHANNELS", "holdfast:1:inbox:*");
  await waitUntil("the waiter listens", async () => (await channels() as string[]).length === 1);
  const [channel] = await channels() as string[];
  for (
    const text of ["hello", "grant 1 1 1\nv\nholdfast:x", "grant 1 x y\nv\nlock:n"]
  ) {
    await redis.server.command("PUBLISH", channel!, text);
  }
  await held.release();
  await using lease = await within("the waiter is granted", wait);
  lease.throwIfLost();
});

Deno.test("RedisLock.request() with steal never takes the lock from another holder than the one it saw", async () => {
  await using redis = await open();
  const locks = await Promise.all([1, 2, 3, 4].map(() => redis.lock()));
  const first = await locks[0]!.acquire("n");
  const tokens: bigint[] = [first.fencingToken];
  await Promise.all(locks.map((lock) =>
    lock.request("n", { steal: true }, (lease) => {
      tokens.push(lease!.fencingToken);
    }).catch((error) => assert(error instanceof LeaseLostError, String(error)))
  ));
  assertEquals(new Set(tokens).size, 5);
  assertEquals(await redis.server.command("EXISTS", "lock:n"), 0);
});

Deno.test("RedisLock warns once when the server may evict locks", async () => {
  await using redis = await open({ args: ["--maxmemory", "100mb"] });
  const warnings: string[] = [];
  const onWarning = (message: string) => warnings.push(message);
  const quiet = await redis.lock({ onWarning });
  await (await quiet.acquire("n")).release();
  await quiet.query("n");
  assertEquals(warnings, []);
  await redis.server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  const warned = await redis.lock({ onWarning });
  for (let i = 0; i < 3; i++) await (await warned.acquire("n")).release();
  await waitUntil("the warning has come", () => warnings.length > 0);
  assertEquals(warnings.length, 1);
  assert(warnings[0]!.includes("allkeys-lru"));
});

Deno.test("RedisLock closes the connections that it opened when it is disposed", async () => {
  await using server = await startRedis();
  const count = async () =>
    String(await server.command("CLIENT", "LIST")).trim().split("\n").length;
  const before = await count();
  const { client } = await openRedisClient("deno-redis-like", server.url);
  {
    await using lock = new RedisLock(client);
    await using _lease = await lock.acquire("n");
    assert(await count() > before);
  }
  await waitUntil("the connection is closed", async () => await count() === before);
});

Deno.test("RedisLock throws on bad options at construction", () => {
  const client = { send: () => Promise.resolve(null), epoch: 0, cluster: false };
  const bad: [unknown, typeof TypeError | typeof RangeError][] = [
    [{ ttlMs: 9 }, RangeError],
    [{ ttlMs: "10" }, TypeError],
    [{ ttlMs: 1.5e12 }, RangeError],
    [{ keyPrefix: 7 }, TypeError],
    [{ keyPrefix: "\ud800" }, TypeError],
    [{ unavailableAfterMs: 0 }, RangeError],
    [{ commandTimeoutMs: NaN }, RangeError],
    [{ onWarning: "no" }, TypeError],
    [{ label: "" }, RangeError],
    [{ label: "a\nb" }, RangeError],
    [{ disposeTimeoutMs: -1 }, RangeError],
  ];
  for (const [options, type] of bad) {
    assertThrows(() => new RedisLock(client, options as RedisLockOptions), type);
  }
  const bare = { send: client.send, subscribe() {}, close() {} }; // such as Bun.redis
  for (const other of [{}, bare, { ...bare, epoch: 0 }, { ...bare, cluster: false }]) {
    assertThrows(() => new RedisLock(other as never), LockSetupError, "nodeRedis");
  }
});

Deno.test("RedisLock rejects bad owner ids before it sends anything", async () => {
  const send = () => Promise.reject(new Error("Nothing should be sent"));
  await using lock = new RedisLock({ send, epoch: 0, cluster: false });
  const bad: [unknown, typeof TypeError | typeof RangeError][] = [
    ["", RangeError],
    ["x".repeat(501), RangeError],
    ["a\nb", RangeError],
    ["\ud800", TypeError],
    [7, TypeError],
  ];
  for (const [ownerId, type] of bad) {
    await assertRejects(() => lock.acquire("n", { ownerId: ownerId as string }), type);
    await assertRejects(() => lock.attach("n", ownerId as string), type);
  }
});
