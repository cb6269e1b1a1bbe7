/**
 * Readers, writers and calls with limits in several processes, in order: what each strategy must show.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { AcquireOptions, DistributedLock } from "../../mod.ts";
import { within } from "../conformance/bounds.ts";
import type { LockSpec } from "../conformance/lock_spec.ts";
import { say } from "../processes/figures.ts";
import {
  type Grant,
  mixedInversions,
  mixedOverlaps,
  startWorker,
  type Worker,
} from "../processes/workers.ts";
import { waitUntil } from "../servers/wait.ts";
import { LONG_BOUND_MS } from "../time.ts";

const PROCESSES = 4;
const WAITERS = 50;
const BOUND_MS = LONG_BOUND_MS;

/** The calls of the processes. */
export interface MixedCalls {
  readonly spec: LockSpec;
  readonly name: string;
  readonly seed: number;
  /** Each call draws one of them. */
  readonly modes: readonly Pick<AcquireOptions, "mode" | "limit">[];
}

function start({ seed, ...calls }: MixedCalls): Worker[] {
  return Array.from({ length: PROCESSES }, (_, i) => {
    const waiters = Math.floor((WAITERS + i) / PROCESSES);
    return startWorker({ ...calls, waiters, aborts: false, seed: seed + i });
  });
}

/** Waits for so many grants, and checks that nobody passed a waiter. Resolves with all of them. */
export async function grantsInOrder(calls: MixedCalls, count: number): Promise<Grant[]> {
  const workers = start(calls);
  const all = () => workers.flatMap(({ grants }) => grants);
  try {
    await waitUntil("enough were granted", () => all().length >= count, BOUND_MS);
    for (const worker of workers) assertEquals(await worker.finish(), 0);
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  const found = [mixedInversions(all()), mixedOverlaps(all())];
  const shared = all().filter(({ mode }) => mode === "shared").length;
  const text = `${all().length} grants, ${shared} of them shared; seed ${calls.seed}`;
  say(`${text}: ${found[0]} inversions, ${found[1]} overlaps`);
  assertEquals(found, [0, 0], text);
  return all();
}

/** A writer asks again and again among constant readers: only those that it finds are ahead of it. */
export async function writerAmongReaders(
  calls: Omit<MixedCalls, "modes">,
  writer: DistributedLock,
  rounds: number,
): Promise<void> {
  const workers = start({ ...calls, modes: [{ mode: "shared" }] });
  const read = () => workers.reduce((sum, { grants }) => sum + grants.length, 0);
  let [most, longestMs] = [0, 0];
  try {
    for (let i = 0; i < rounds; i++) {
      const before = read();
      await waitUntil("readers come and go", () => read() > before, BOUND_MS);
      let ahead = 0;
      const onWait = ({ position = 0 }) => void (ahead = Math.max(ahead, position));
      const startMs = performance.now();
      const call = writer.acquire(calls.name, { onWait });
      const lease = await within("the writer is granted the lock", call);
      longestMs = Math.max(longestMs, performance.now() - startMs);
      assert(ahead <= WAITERS + 1, `${ahead} of ${WAITERS} readers were ahead`);
      most = Math.max(most, ahead);
      assertEquals((await writer.query(calls.name)).holderCount, 1);
      await lease.release();
    }
    for (const worker of workers) assertEquals(await worker.finish(), 0);
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  say(
    `${rounds} writers among ${WAITERS} readers (${read()} reads): last position ${most}, ` +
      `longest wait ${longestMs.toFixed(1)} ms`,
  );
}
