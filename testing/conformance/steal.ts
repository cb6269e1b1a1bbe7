/**
 * Behaviours: a steal at the very moment of a grant.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { DistributedLock, Lease } from "../../mod.ts";
import { behaviour, type Harness } from "./harness.ts";
import { within } from "./bounds.ts";

/** Steals the lock, and holds it until `end` is called. */
function steal(locks: DistributedLock) {
  const inside = Promise.withResolvers<Lease>();
  const gate = Promise.withResolvers<void>();
  const over = locks.request("n", { steal: true }, async (lease) => {
    inside.resolve(lease!);
    await gate.promise;
  });
  over.catch(inside.reject);
  return { inside: inside.promise, over, end: gate.resolve };
}

/** Checks that the thief alone holds the lock: the other call waits, or has lost its lease. */
async function assertOneHolder(
  locks: DistributedLock,
  acquiring: Promise<Lease>,
  thief: Lease,
): Promise<void> {
  let victim: Lease | null = null;
  acquiring.then((lease) => victim = lease, () => {});
  // Its grant was under way, perhaps on another connection than the first answer.
  for (let i = 0; i < 2; i++) await locks.query("n");
  const lost = victim as Lease | null;
  await lost?.renew().catch(() => {}); // its next renewal would find the steal, too
  thief.throwIfLost();
  if (lost === null) return;
  assert(lost.signal.aborted, "the victim's lease should be lost");
  assertEquals(lost.signal.reason.reason, "stolen");
  assert(lost.fencingToken < thief.fencingToken, "the thief's token should be the greater one");
}

/** Registers the behaviours. */
export function stealSuite(harness: Harness): void {
  const { steal: canSteal } = harness.capabilities;

  behaviour(
    harness,
    "request() that steals in the tick of an uncontended acquire leaves one holder",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const acquiring = a.acquire("n");
      const theft = steal(b);
      await assertOneHolder(a, acquiring, await within("it is stolen", theft.inside));
      theft.end();
      await theft.over;
      await within("the call ends", acquiring.then((lease) => lease.release()));
    },
    canSteal,
  );

  behaviour(
    harness,
    "request() that steals in the tick of a release that hands over leaves one holder",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const first = await a.acquire("n");
      const waiting = Promise.withResolvers<void>();
      const acquiring = a.acquire("n", { onWait: () => waiting.resolve() });
      await within("it waits", waiting.promise);
      const released = first.release();
      const theft = steal(b);
      await assertOneHolder(a, acquiring, await within("it is stolen", theft.inside));
      await released;
      theft.end();
      await theft.over;
      await within("the call ends", acquiring.then((lease) => lease.release()));
    },
    canSteal,
  );
}
