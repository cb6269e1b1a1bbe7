/**
 * Behaviours: processes that end or are killed while they hold the lock or wait for it.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { behaviour, type Harness } from "./harness.ts";
import { startContender } from "./process.ts";
import { within } from "./bounds.ts";
import { ENDING_TTL_MS, FAULT_TTL_MS, LONG_TTL_MS, SHORT_DISPOSAL_MS } from "../time.ts";

/** Registers the behaviours. */
export function crashSuite(harness: Harness): void {
  behaviour(harness, "acquire() gets the lock after its holder was killed", async (arena) => {
    const spec = arena.spec({ ttlMs: FAULT_TTL_MS });
    const lock = await arena.client();
    await lock.query("n"); // connects
    await using holder = startContender(spec, { do: "hold", name: "n" });
    const line = await within("the other process holds the lock", holder.line());
    assertMatch(line, /^held \d+$/);
    assertEquals(await lock.tryAcquire("n"), null);
    holder.kill("SIGKILL");
    await using lease = await within("the dead holder's lock is free", lock.acquire("n"));
    assert(lease.fencingToken > BigInt(line.slice(5)));
  }, harness.processes);

  behaviour(
    harness,
    "acquire() gets the lock as soon as its holder exits cleanly",
    async (arena) => {
      // Only a release can free the lock in time.
      const spec = arena.spec({ ttlMs: LONG_TTL_MS, disposeTimeoutMs: SHORT_DISPOSAL_MS });
      const lock = await arena.client();
      await using holder = startContender(spec, { do: "exit", name: "n" });
      await within("the other process holds the lock", holder.line());
      await using lease = await within("the lock is free", lock.acquire("n"));
      lease.throwIfLost();
      assertEquals(await holder.end(), 0);
    },
    harness.processes,
  );

  behaviour(
    harness,
    "acquire() is not blocked by other waiters that were killed",
    async (arena) => {
      const spec = arena.spec({ ttlMs: ENDING_TTL_MS });
      const [a, b] = [await arena.client(), await arena.client()];
      const first = await a.acquire("n");
      const begins = Promise.withResolvers<void>();
      await using before = startContender(spec, { do: "hold", name: "n" });
      assertEquals(await within("the process before waits", before.line()), "waits");
      const next = b.acquire("n", { onWait: () => begins.resolve() });
      await within("the client waits", begins.promise);
      await using behind = startContender(spec, { do: "hold", name: "n" });
      assertEquals(await within("the process behind waits", behind.line()), "waits");
      for (const waiter of [before, behind]) waiter.kill("SIGKILL");
      assertEquals(await first.release(), true);
      await using lease = await within("the next waiter is granted", next);
      lease.throwIfLost();
    },
    harness.processes,
  );
}
