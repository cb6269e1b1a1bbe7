/**
 * How `show` and `list` print what `query()` has read.
 *
 * @module
 */
import type { LockHolder, LockSnapshot } from "../core/contract/distributed_lock.ts";

/** A snapshot as one line of JSON, which has no big integers. */
export function asJson(snapshot: LockSnapshot): string {
  const asText = (_key: string, value: unknown) => typeof value === "bigint" ? `${value}` : value;
  return JSON.stringify(snapshot, asText);
}

/** A holder in words. */
export function describeHolder(holder: LockHolder): string {
  const { mode, label, fencingToken, remainingMs } = holder;
  return [
    label ?? "(no label)",
    ...mode === "shared" ? ["shared"] : [],
    ...fencingToken === undefined ? [] : [`token ${fencingToken}`],
    ...remainingMs === undefined ? [] : [`${seconds(remainingMs)} left`],
  ].join(", ");
}

/** A time in words. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** A name for a terminal: one with control characters as JSON writes it. */
export function printable(name: string): string {
  return /\p{Cc}/u.test(name) ? JSON.stringify(name) : name;
}
