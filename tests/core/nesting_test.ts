/**
 * Which uses show that code holds a lease or a set, and how many names are warned about. What all strategies
 * do is in `testing/conformance/nesting.ts`.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { acquireAll, type Lease, type LeaseSet, LockTimeoutError, MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const USES: Record<string, (held: Lease | LeaseSet) => unknown> = {
  "reads its signal": (held) => held.signal,
  "calls throwIfLost()": (held) => held.throwIfLost(),
  "begins `await using`": (held) => held[Symbol.asyncDispose],
};

Deno.test("acquire() warns code that waits for the lease or the set that it has used in any way", async () => {
  for (const [what, use] of Object.entries(USES)) {
    for (const isSet of [false, true]) {
      const warnings: string[] = [];
      await using locks = new MemoryLock({ onWarning: (text) => void warnings.push(text) });
      const held = isSet ? await acquireAll(locks, ["n", "m"]) : await locks.acquire("n");
      use(held);
      await assertRejects(() => locks.acquire("n", { waitMs: 1 }), LockTimeoutError);
      await waitUntil(`it ${what}, and is warned`, () => warnings.length === 1);
      await held.release();
    }
  }
});

Deno.test("request() warns about nested calls for 100 names, and then no more", async () => {
  const warnings: string[] = [];
  await using locks = new MemoryLock({ onWarning: (text) => void warnings.push(text) });
  for (let i = 0; i <= 100; i++) {
    await locks.request(`n${i}`, async () => {
      const abort = new AbortController();
      const call = locks.acquire(`n${i}`, { signal: abort.signal });
      abort.abort(new Error("enough"));
      await assertRejects(() => call, Error, "enough");
    });
  }
  assertEquals(warnings.length, 100);
});
