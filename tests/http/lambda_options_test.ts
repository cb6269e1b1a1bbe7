import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { lambdaLock } from "../../http/lambda.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";

const context = { getRemainingTimeInMillis: () => 60_000 };

Deno.test("lambdaLock() refuses bad options when the function starts", async () => {
  await using lock = new MemoryLock();
  const make = (options: object) => () => lambdaLock(lock, { key: "k", ...options });
  assertThrows(make({ key: 1 }), TypeError, "'key'");
  assertThrows(make({ wait: -1 }), RangeError, "'wait'");
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
  assertStringIncludes((error.cause as Error).message, "1 to 1000");
});

Deno.test("an invocation ends when its lock was given back, not before", async () => {
  await using inner = new MemoryLock();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let hasAsked = false;
  // The service takes its time to answer a release.
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
  while (!hasAsked) await new Promise((resolve) => setTimeout(resolve));
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setTimeout(resolve));
  assert(!hasEnded);
  open();
  assertEquals(await ended, "done");
  assertEquals((await inner.query("k")).held, null);
});
