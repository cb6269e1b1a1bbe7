/** The version of the lines that this code writes. It reads no others. */
export const VERSION = 1;

/**
 * A line of a recording: a JSON object, without the members that are `undefined`. Which it has depends on `on`. Times
 * are in ms of the monotonic clock of the process, from its first line on.
 */
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
  readonly at?: number | undefined;
  readonly v?: number | undefined;
  readonly process?: string | undefined;
  readonly wallMs?: number | undefined;
  readonly blockedMs?: number | undefined;
  readonly count?: number | undefined;
  /** The number of the call, of those that wait. */
  readonly call?: number | undefined;
  /** The number of the lease. */
  readonly hold?: number | undefined;
  readonly strategy?: string | undefined;
  readonly name?: string | undefined;
  readonly mode?: string | undefined;
  readonly label?: string | undefined;
  readonly token?: string | undefined;
  readonly waitedMs?: number | undefined;
  readonly heldMs?: number | undefined;
  readonly remainingMs?: number | undefined;
  readonly position?: number | undefined;
  readonly waiters?: number | undefined;
  readonly holderLabel?: string | undefined;
  readonly holderCount?: number | undefined;
  readonly reason?: string | undefined;
  readonly outcome?: string | undefined;
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
