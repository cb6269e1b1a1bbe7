/**
 * Starts a process that asks for many different locks at once.
 *
 * @module
 */
import type { LockSpec } from "../conformance/lock_spec.ts";
import { startChild } from "../processes/child.ts";

/** Options of {@linkcode runNames}. */
export interface NamesOptions {
  readonly spec: LockSpec;
  /** How many names. */
  readonly count: number;
  readonly method: "acquire" | "tryAcquire";
}

/** How the calls ended. */
export interface NamesReport {
  readonly granted: number;
  /** Calls of `tryAcquire()` that returned `null`. */
  readonly refused: number;
  /** Leases that were over when the call returned, or before they were released. */
  readonly lost: number;
  readonly rejections: number;
  /** The text of the first rejection. */
  readonly text: string;
  /** Until the last lock was released. */
  readonly seconds: number;
  /** The process's memory: before the calls, and at most. */
  readonly beforeMb: number;
  readonly peakMb: number;
}

/** Makes all calls in a new process. Releases each lock as soon as it is granted. */
export async function runNames(options: NamesOptions): Promise<NamesReport> {
  await using child = startChild(new URL("./names_process.ts", import.meta.url), options);
  const line = await child.line();
  if (line === null) throw new Error("The process ended without a report");
  await child.end();
  return JSON.parse(line);
}
