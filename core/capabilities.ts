/**
 * What a strategy promises, declared in one line.
 *
 * @module
 */
import type { LockCapabilities } from "./distributed_lock.ts";

/** Completes and freezes the capabilities of a strategy. What it does not name, it does not offer. */
export function capabilitiesOf(
  { fifo, endsBy, steal = false, attach = false, shared = false }:
    & Pick<LockCapabilities, "fifo" | "endsBy">
    & Partial<LockCapabilities>,
): LockCapabilities {
  return Object.freeze({ fifo, endsBy, steal, attach, shared });
}
