/**
 * The lines of a recording: a JSON object each. Times are in ms of the monotonic clock of the process, from its
 * first line on.
 *
 * @module
 */

/** The version of the lines that this code writes. It reads no newer ones. */
export const VERSION = 1;

/** A line. Which of the members it has depends on `on`. */
export interface Line {
  readonly on:
    /** A process begins to record: `v`, `process`, `wallMs`. */
    | "start"
    /** It still runs; or its wall clock was set, or it did not run for `blockedMs`: `wallMs`. */
    | "clock"
    /** The recorder has ended. */
    | "stop"
    /** `count` lines were not written: the disk was too slow. */
    | "dropped"
    | "wait"
    | "blocked"
    | "grant"
    | "renewal-late"
    | "lost"
    | "release"
    /** A call has ended without a lease: `outcome`. */
    | "end";
  readonly at?: number;
  readonly v?: number;
  readonly process?: string;
  readonly wallMs?: number;
  readonly blockedMs?: number;
  readonly count?: number;
  /** The number of the call, of those that wait. */
  readonly call?: number;
  /** The number of the lease. */
  readonly hold?: number;
  readonly strategy?: string;
  readonly name?: string;
  readonly mode?: string;
  readonly label?: string;
  readonly token?: string;
  readonly waitedMs?: number;
  readonly heldMs?: number;
  readonly remainingMs?: number;
  readonly position?: number;
  readonly waiters?: number;
  readonly holderLabel?: string;
  readonly holderCount?: number;
  readonly reason?: string;
  readonly outcome?: string;
}

const NUMBERS = new Set([
  ...["at", "v", "wallMs", "blockedMs", "count", "call", "hold", "waitedMs", "heldMs"],
  ...["remainingMs", "position", "waiters", "holderCount"],
]);

/** Reads a line; `null` if it is none, such as the last one of a process that was killed. */
export function readLine(text: string): Line | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("on" in value)) return null;
  for (const [name, member] of Object.entries(value)) {
    const isGood = NUMBERS.has(name) ? Number.isFinite(member) : typeof member === "string";
    if (!isGood) return null;
  }
  return value as Line;
}
