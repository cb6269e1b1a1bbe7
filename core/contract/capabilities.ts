/**
 * A short way for a strategy to declare its capabilities.
 *
 * @module
 */
import type { LockCapabilities } from "./distributed_lock.ts";

/** Completes and freezes the capabilities of a strategy. Those that it leaves out are `false`. */
export function capabilitiesOf(
  { fifo, endsBy, steal = false, attach = false, shared = false }:
    & Pick<LockCapabilities, "fifo" | "endsBy">
    & Partial<LockCapabilities>,
): LockCapabilities {
  return Object.freeze({ fifo, endsBy, steal, attach, shared });
}
