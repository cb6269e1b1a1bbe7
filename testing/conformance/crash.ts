/**
 * Behaviours: processes that end or are killed while they hold the lock or wait for it.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { behaviour, type Harness } from "./harness.ts";
import { startContender } from "./process.ts";
import { within } from "./wait.ts";

/** Registers the behaviours. */
export function crashSuite(harness: Harness): void {
  behaviour(harness, "acquire() gets the lock after its holder was killed", async (arena) => {
    const spec = arena.spec({ ttlMs: 2_000 });
    const lock = await arena.client();
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
      // The TTL is a minute, so only a release can free the lock in time.
      const spec = arena.spec({ ttlMs: 60_000 });
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
    "acquire() is not blocked by another waiter that was killed",
    async (arena) => {
      const spec = arena.spec({ ttlMs: 2_000 });
      const [a, b] = [await arena.client(), await arena.client()];
      const first = await a.acquire("n");
      await using waiter = startContender(spec, { do: "hold", name: "n" });
      // The process cannot report that it waits. If it is killed before that, the test is only easier.
      await new Promise((resolve) => setTimeout(resolve, 500));
      const next = b.acquire("n");
      waiter.kill("SIGKILL");
      assertEquals(await first.release(), true);
      await using lease = await within("the next waiter is granted", next);
      lease.throwIfLost();
    },
    harness.processes,
  );
}
