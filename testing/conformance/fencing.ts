/**
 * Behaviours: fencing tokens and owner ids.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";
import { ENDING_TTL_MS } from "../time.ts";

/** Registers the behaviours. */
export function fencingSuite(harness: Harness): void {
  behaviour(harness, "Lease.fencingToken grows with every grant, across clients", async (arena) => {
    const locks = [await arena.client(), await arena.client()];
    const tokens: bigint[] = [];
    for (let i = 0; i < 20; i++) {
      const lease = await locks[i % 2]!.acquire("n");
      tokens.push(lease.fencingToken);
      await lease.release();
    }
    const grown = tokens.every((token, i) => i === 0 || token > tokens[i - 1]!);
    assert(grown, `not strictly increasing: ${tokens.join(", ")}`);
  });

  behaviour(harness, "Lease.fencingToken grows after a lease was lost", async (arena) => {
    const [a, b] = [await arena.client({ ttlMs: ENDING_TTL_MS }), await arena.client()];
    const lost = await a.acquire("n");
    await arena.lose(lost);
    await using next = await within("the lost lock is free", b.acquire("n"));
    assert(next.fencingToken > lost.fencingToken);
    assertEquals(typeof next.fencingToken, "bigint");
  });

  behaviour(harness, "Lease.ownerId is unique and starts with the label", async (arena) => {
    const lock = await arena.client({ label: "billing-1" });
    await using a = await lock.acquire("a");
    await using b = await lock.acquire("b");
    assert(a.ownerId !== b.ownerId);
    assert(a.ownerId.startsWith("billing-1"));
    assert(a.ownerId.length > 36);
  });
}
