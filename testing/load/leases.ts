/**
 * Starts a process that keeps many leases.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { startChild } from "../processes/child.ts";

/** Options of {@linkcode runLeases}. */
export interface LeasesOptions {
  readonly spec: LockSpec;
  /** How many leases. */
  readonly count: number;
}

/** A process that has acquired all its leases. Disposal kills it. */
export interface LeasesProcess extends AsyncDisposable {
  /** What each lease has left, in ms; 0 for those that are lost. */
  leftMs(): Promise<number[]>;
}

/** Starts the process, and waits until it has all its leases. */
export async function runLeases(options: LeasesOptions): Promise<LeasesProcess> {
  const child = startChild(new URL("./leases_process.ts", import.meta.url), options);
  if (await child.line() !== "ready") throw new Error("The process ended early");
  return {
    async leftMs() {
      await child.send("left");
      return JSON.parse(await child.line() ?? "[]");
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
