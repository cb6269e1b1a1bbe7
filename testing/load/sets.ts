/**
 * Starts processes that acquire overlapping sets of names, again and again.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { type Reporter, startReporter } from "../processes/child.ts";

/** Options of {@linkcode startSets}. */
export interface SetsOptions {
  readonly spec: LockSpec;
  readonly names: readonly string[];
  readonly seed: number;
  /** How many sets it asks for at the same time. */
  readonly lanes: number;
}

/** How one call ended: with a set that was released, or with one of the errors that faults cause. */
export type SetReport = "held" | "refused" | "aborted" | "timeout" | "lost" | "unavailable";

/** Starts a process, which reports each call when it has ended. It stops when its input ends. */
export function startSets(options: SetsOptions): Reporter<SetReport> {
  return startReporter<SetReport>(new URL("./sets_process.ts", import.meta.url), options);
}
