import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import { lambdaLock, RetryableLockError } from "../../http/lambda.ts";
import { type DistributedLock, LeaseLostError, MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const context = { getRemainingTimeInMillis: () => 60_000 };

Deno.test("lambdaLock() throws on bad options when the function starts", async () => {
  await using lock = new MemoryLock();
  const make = (options: object) => () => lambdaLock(lock, { key: "k", ...options });
  assertThrows(make({ key: 1 }), TypeError, "'key'");
  assertThrows(make({ waitMs: -1 }), RangeError, "'waitMs'");
  assertThrows(make({ marginMs: "x" }), TypeError, "'marginMs'");
  assertThrows(make({ marginMs: -1 }), RangeError, "'marginMs'");
  assertThrows(make({ ttlMs: 1 }), RangeError, "'ttlMs'");
  assertThrows(make({ maxHoldMs: 0 }), RangeError, "'maxHoldMs'");
  assertThrows(make({ busyStatus: 500 }), TypeError, "'busyStatus'");
  assertThrows(make({ onUnavailable: "maybe" }), TypeError, "'onUnavailable'");
  assertThrows(make({ onError: 1 }), TypeError, "'onError'");
  const handler = lambdaLock(lock, { key: "" })(() => "done");
  const error = await assertRejects(
    () => handler({}, context),
    RangeError,
    "the key of this event",
  );
  assertStringIncludes(error.message, "1 to 1000");
  assert(error.cause instanceof RangeError);
});

Deno.test("lambdaLock() answers only after the lock is released", async () => {
  await using inner = new MemoryLock();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let hasAsked = false;
  // A lock whose releases get no answer until the gate opens.
  const slow = (): DistributedLock => ({
    capabilities: inner.capabilities,
    acquire: (...args) => inner.acquire(...args),
    request: (...args: unknown[]) => (inner.request as (...args: unknown[]) => never)(...args),
    query: (name) => inner.query(name),
    [Symbol.asyncDispose]: () => gate,
    async tryAcquire(name, options) {
      const lease = (await inner.tryAcquire(name, options))!;
      const release = lease.release.bind(lease);
      return Object.defineProperty(lease, "release", {
        value: () => (hasAsked = true, gate.then(release)),
      });
    },
  });
  let hasEnded = false;
  const handler = lambdaLock(slow(), { key: "k" })(() => Promise.resolve("done"));
  const ended = handler({}, context).finally(() => hasEnded = true);
  await waitUntil("the lock is being released", () => hasAsked);
  for (let i = 0; i < 10; i++) await turn();
  assert(!hasEnded);
  open();
  assertEquals(await ended, "done");
  assertEquals((await inner.query("k")).holders, []);
});

Deno.test("lambdaLock() accepts any remaining time, and refuses a context that tells none", async () => {
  await using lock = new MemoryLock();
  const own = () => new MemoryLock();
  const gateway = { version: "2.0", requestContext: { http: { method: "PUT" } } };
  for (const form of [lock, own]) {
    const handler = lambdaLock(form, { key: "k" })((_event: unknown, _context, lease) => {
      lease.throwIfLost();
      return "done";
    });
    // As in a context that is made for a test, or on a runtime without a limit.
    for (const remainingMs of [Infinity, Number.MAX_SAFE_INTEGER, 2 ** 31 + 600]) {
      const context = { getRemainingTimeInMillis: () => remainingMs };
      assertEquals(await handler({}, context), "done");
    }
    for (const remainingMs of [0, -1, NaN]) {
      const context = { getRemainingTimeInMillis: () => remainingMs };
      assertEquals((await handler(gateway, context) as { statusCode: number }).statusCode, 503);
      const error = await assertRejects(() => handler({}, context), RetryableLockError);
      assertEquals([error.reason, error.cause], ["too-little-time", undefined]);
    }
    for (const none of [undefined, null, {}, { getRemainingTimeInMillis: 1 }]) {
      await assertRejects(() => handler({}, none as never), TypeError, "Lambda's context");
    }
    assertEquals((await lock.query("k")).holders, []);
  }
});

Deno.test("RetryableLockError carries the reason, the lock's name and the cause", async () => {
  await using lock = new MemoryLock();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const make = (maxHoldMs: number) => lambdaLock(lock, { key: "k", maxHoldMs })(() => gate);
  const lost = await assertRejects(() => make(20)({}, context), RetryableLockError);
  assertEquals([lost.reason, lost.lockName, lost.retryable], ["lease-lost", "k", true]);
  assert(lost.cause instanceof LeaseLostError);
  assertStringIncludes(lost.message, 'under the lock "k": the lease was lost');
  assertStringIncludes(lost.message, lost.cause.message);
  assertEquals(lost.cause.reason, "max-hold");
  const holder = make(60_000)({}, context);
  const busy = await assertRejects(() => make(60_000)({}, context), RetryableLockError);
  assertEquals(busy.reason, "busy");
  assertStringIncludes(busy.message, 'under the lock "k": somebody else holds it');
  assert(
    Number.isInteger(busy.retryAfterMs),
    "a whole number, so that it can be passed as 'waitMs'",
  );
  assert(!("cause" in busy), "no error is the cause: somebody else holds the lock");
  open();
  await holder;
});

Deno.test("lambdaLock() passes the loss of a lease to onError", async () => {
  await using lock = new MemoryLock();
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const handler = lambdaLock(lock, { key: "k", maxHoldMs: 1, onError })(
    (_event: unknown, _context, lease) =>
      new Promise((resolve) => lease.signal.addEventListener("abort", resolve)),
  );
  const error = await assertRejects(() => handler({}, context), RetryableLockError);
  assertEquals((error as RetryableLockError).reason, "lease-lost");
  assert(errors.length === 1 && errors[0] === error.cause, String(errors));
  assert(errors[0] instanceof LeaseLostError);
});

Deno.test("lambdaLock() passes what a handler throws after a loss to onError", async () => {
  await using lock = new MemoryLock();
  const errors: unknown[] = [];
  const bug = new Error("made by a test");
  const onError = (error: unknown) => void errors.push(error);
  const handler = lambdaLock(lock, { key: "k", maxHoldMs: 1, onError })(
    async (_event: unknown, _context, lease) => {
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      throw bug;
    },
  );
  await assertRejects(() => handler({}, context), RetryableLockError);
  await waitUntil("it is reported", () => errors.includes(bug));
});
