/**
 * How the lease engine checks and releases a locked file.
 *
 * @module
 */
import type { LeaseActions } from "../core/lease/grant.ts";
import type { Turn } from "../core/lease/local_queue.ts";
import type { HeldFile } from "./lock_file.ts";

/** The actions of a lease on a file. Its release also ends the turn in this process. */
export function actionsOf(file: HeldFile, turn: Turn): LeaseActions {
  return {
    // deno-lint-ignore require-await -- a failing stat must reject
    renew: async () =>
      file.isInPlace() ? { state: "held", validMs: Infinity } : { state: "lost", reason: "stolen" },
    // deno-lint-ignore require-await -- a failing write must reject
    release: async () => {
      const inPlace = isInPlace(file);
      turn.end();
      file.release();
      return inPlace ? { state: "released" } : { state: "gone", reason: "stolen" };
    },
  };
}

function isInPlace(file: HeldFile): boolean {
  try {
    return file.isInPlace();
  } catch {
    return false;
  }
}
