/**
 * Behaviours: releasing a lease.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LockError } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";

/** Registers the behaviours. */
export function releaseSuite(harness: Harness): void {
  behaviour(harness, "Lease.release() frees the lock at once", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const lease = await a.acquire("n");
    assertEquals(lease.isHeld, true);
    assertEquals(await lease.release(), true);
    assertEquals(lease.isHeld, false);
    await using next = await b.tryAcquire("n");
    assert(next !== null);
    assertEquals(lease.remainingMs, 0);
  });

  behaviour(
    harness,
    "Lease.release() returns false the second time and does not affect the next holder",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const lease = await a.acquire("n");
      assertEquals(await Promise.all([lease.release(), lease.release()]), [true, false]);
      await using next = await b.acquire("n");
      assertEquals(await lease.release(), false);
      await lease[Symbol.asyncDispose]();
      next.throwIfLost();
      assertEquals(await a.tryAcquire("n"), null);
    },
  );

  behaviour(harness, "Lease.throwIfLost() and renew() throw after a release", async (arena) => {
    const lease = await (await arena.client()).acquire("n");
    await lease.release();
    assertThrows(() => lease.throwIfLost(), LockError, "released");
    await assertRejects(() => lease.renew(), LockError, "released");
  });

  behaviour(
    harness,
    "Lease[Symbol.asyncDispose]() releases the lock and keeps the error of its block",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const error = new Error("the body's own");
      const thrown = await assertRejects(async () => {
        await using _lease = await a.acquire("n");
        throw error;
      });
      assert(thrown === error);
      await using next = await b.tryAcquire("n");
      assert(next !== null);
    },
  );

  behaviour(
    harness,
    "Lease.release() of a lost lease returns false and does not affect the next holder",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const lease = await a.acquire("n");
      await arena.lose(lease);
      await using next = await within("the lost lock is free", b.acquire("n"));
      assertEquals(await lease.release(), false);
      next.throwIfLost();
      assertEquals(await (await arena.client()).tryAcquire("n"), null);
    },
  );
}
