/**
 * Behaviours: `request()` and `query()`, which follow `navigator.locks`.
 *
 * @module
 */
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { type Lease, LeaseLostError } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { aborted, within } from "./bounds.ts";
import { waitUntil } from "../servers/wait.ts";

async function refusal(promise: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => promise, DOMException)).name;
}

/** Registers the behaviours. */
export function requestSuite(harness: Harness): void {
  behaviour(
    harness,
    "request() runs its callback under the lock and returns the result",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const result = await a.request("n", async (lease) => {
        lease.throwIfLost();
        assertEquals(await b.tryAcquire("n"), null);
        return 7;
      });
      assertEquals(result, 7);
      assertEquals(await b.request("n", { ifAvailable: true }, (lease) => lease?.name), "n");
    },
  );

  behaviour(
    harness,
    "request() accepts a callback that releases the lease itself",
    async (arena) => {
      const lock = await arena.client();
      const ours = await lock.request("n", (lease) => lease.release());
      assertEquals(ours, true);
    },
  );

  behaviour(
    harness,
    "request() with ifAvailable passes null to its callback when the lock is held",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      await using _lease = await a.acquire("n");
      assertEquals(await b.request("n", { ifAvailable: true }, (lease) => lease), null);
    },
  );

  behaviour(
    harness,
    "request() with steal takes the lock away, or rejects with NotSupportedError",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const victim = await a.acquire("n");
      const { signal } = victim;
      if (!harness.capabilities.steal) {
        assertEquals(await refusal(b.request("n", { steal: true }, () => {})), "NotSupportedError");
        assertEquals(await victim.release(), true);
        return;
      }
      await b.request("n", { steal: true }, async (lease) => {
        assert(lease !== null && lease.fencingToken > victim.fencingToken);
        await within("the robbed holder's signal aborts", aborted(signal));
        assertInstanceOf(signal.reason, LeaseLostError);
        assertEquals(signal.reason.reason, "stolen");
        assertEquals(await victim.release(), false);
        lease.throwIfLost();
      });
      assertEquals((await a.query("n")).holders, []);
      // With no holder, steal simply acquires the lock.
      assertEquals(await b.request("n", { steal: true }, (lease) => lease?.name), "n");
    },
  );

  behaviour(
    harness,
    "request() rejects the options that the Web Locks API rejects",
    async (arena) => {
      const lock = await arena.client();
      const { signal } = new AbortController();
      for (
        const options of [
          { steal: true, ifAvailable: true },
          { steal: true, signal },
          { steal: true, mode: "shared" },
          { steal: true, limit: 2 },
        ] as const
      ) {
        assertEquals(await refusal(lock.request("n", options, () => {})), "NotSupportedError");
      }
      const bad = { mode: "both" } as unknown as { mode: "shared" };
      await assertRejects(() => lock.request("n", bad, () => {}), TypeError);
      const noCallback = undefined as unknown as () => void;
      await assertRejects(() => lock.request("n", {}, noCallback), TypeError);
      await assertRejects(() => lock.request("n", noCallback), TypeError);
      assertEquals((await lock.query("n")).holders, []);
    },
  );

  behaviour(harness, "query() reports the holder and does not affect its lease", async (arena) => {
    const [a, b] = [await arena.client({ label: "holder" }), await arena.client()];
    assertEquals(await b.query("n"), {
      name: "n",
      holders: [],
      holderCount: 0,
      waiters: [],
      waiterCount: 0,
    });
    const lease = await a.acquire("n");
    const { holders, holderCount } = await b.query("n");
    assertEquals([holders.length, holderCount], [1, 1]);
    const { mode, label, fencingToken, remainingMs } = holders[0]!;
    assertEquals([mode, lease.mode], ["exclusive", "exclusive"]);
    if (label !== undefined) assertEquals(label, "holder");
    if (fencingToken !== undefined) assertEquals(fencingToken, lease.fencingToken);
    if (remainingMs !== undefined) assert(remainingMs > 0);
    lease.throwIfLost();
    assertEquals(await lease.release(), true);
    assertEquals((await b.query("n")).holders, []);
  });

  behaviour(harness, "query() reports at least the waiters of its own instance", async (arena) => {
    const lock = await arena.client();
    const first = await lock.acquire("n");
    const waits: Promise<Lease>[] = [];
    for (let i = 1; i <= 3; i++) {
      waits.push(lock.acquire("n"));
      await waitUntil("one more waits", async () => (await lock.query("n")).waiters.length === i);
    }
    await first.release();
    for (const wait of waits) await (await within("the waiter is granted", wait)).release();
    assertEquals((await lock.query("n")).waiters, []);
  }, harness.capabilities.fifo !== "none");

  behaviour(
    harness,
    "query() shows the label of a call, for its holder and as far as it knows for its waiters",
    async (arena) => {
      const lock = await arena.client({ label: "instance" });
      const labels = (entries: { label?: string }[]) => entries.map(({ label }) => label);
      for (const method of ["acquire", "tryAcquire"] as const) {
        const held = await lock[method]("n", { label: "call-1" });
        assertEquals(labels((await lock.query("n")).holders), ["call-1"]);
        assertEquals(await held!.release(), true);
      }
      const held = await lock.acquire("n");
      assertEquals(labels((await lock.query("n")).holders), ["instance"]);
      const second = lock.acquire("n", { label: "call-2" });
      await waitUntil("it waits", async () => (await lock.query("n")).waiterCount === 1);
      const third = lock.request("n", { label: "call-3" }, async () => {
        assertEquals(labels((await lock.query("n")).holders), ["call-3"]);
      });
      await waitUntil("it waits", async () => (await lock.query("n")).waiterCount === 2);
      assertEquals(labels((await lock.query("n")).waiters), ["call-2", "call-3"]);
      await held.release();
      const lease = await within("the waiter is granted", second);
      assertEquals(labels((await lock.query("n")).holders), ["call-2"]);
      await lease.release();
      await within("the waiter is granted", third);
    },
    harness.capabilities.fifo !== "none",
  );

  behaviour(
    harness,
    "query() lists as many waiters as it is asked for, and counts all",
    async (arena) => {
      const lock = await arena.client();
      const held = await lock.acquire("n");
      const abort = new AbortController();
      const waits = Array.from({ length: 3 }, () => {
        return lock.acquire("n", { signal: abort.signal }).catch(() => {});
      });
      await waitUntil("all wait", async () => (await lock.query("n")).waiterCount === 3);
      for (const maxWaiters of [0, 1, 5]) {
        const { waiters, waiterCount } = await lock.query("n", { maxWaiters });
        assertEquals([waiters.length, waiterCount], [Math.min(3, maxWaiters), 3]);
      }
      abort.abort();
      await Promise.all(waits);
      await held.release();
    },
    harness.capabilities.fifo !== "none",
  );
}
