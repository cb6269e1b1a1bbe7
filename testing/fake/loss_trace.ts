/**
 * What a holder sees of the loss of its lease: with a `FakeLock` it must be the same as with a real lock.
 *
 * @module
 */
import type { DistributedLock, Lease, LeaseLostError } from "../../mod.ts";
import { waitUntil } from "../servers/wait.ts";

/**
 * Holds the lock `"n"`, loses its lease, and returns what the holder has seen, step by step.
 *
 * @param lose Takes the lease away. The trace waits until the holder knows it.
 */
export async function lossTrace(
  lock: DistributedLock,
  lose: (lease: Lease) => unknown,
  maxHoldMs?: number,
): Promise<unknown[]> {
  const trace: unknown[] = [];
  const work = async (lease: Lease) => {
    const { signal } = lease;
    signal.addEventListener("abort", () => {
      const { isHeld, remainingMs } = lease;
      const { name, code, reason, lockName, message } = thrownBy(() => lease.throwIfLost());
      trace.push("abort", { isHeld, remainingMs, name, code, reason, lockName, message });
      trace.push(["the same error", thrownBy(() => lease.throwIfLost()) === signal.reason]);
    });
    await lose(lease);
    await waitUntil("the lease is lost", () => signal.aborted);
    const renewal = await lease.renew().then(() => null, (error) => error);
    trace.push(["renew() rejects with it", renewal === signal.reason]);
    trace.push(["release()", await lease.release(), await lease.release()]);
  };
  const outcome = await lock.request("n", { maxHoldMs }, work).then(() => null, (error) => error);
  trace.push(["request() rejects", outcome?.reason]);
  return trace;
}

function thrownBy(fn: () => void): LeaseLostError {
  try {
    fn();
  } catch (error) {
    return error as LeaseLostError;
  }
  throw new Error("Nothing was thrown");
}
