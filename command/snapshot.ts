import type { LockHolder, LockSnapshot } from "../core/contract/distributed_lock.ts";

/** A snapshot as one line of JSON, which has no big integers. */
export function asJson(snapshot: LockSnapshot): string {
  const asText = (_key: string, value: unknown) => typeof value === "bigint" ? `${value}` : value;
  return JSON.stringify(snapshot, asText);
}

export function describeHolder(holder: LockHolder): string {
  const { mode, label, fencingToken, remainingMs } = holder;
  return [
    printableLabel(label),
    ...mode === "shared" ? ["shared"] : [],
    ...fencingToken === undefined ? [] : [`token ${fencingToken}`],
    ...remainingMs === undefined ? [] : [`${seconds(remainingMs)} left`],
  ].join(", ");
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}

/** A name or label for a terminal: one with control characters as JSON writes it. */
export function printable(text: string): string {
  if (!/\p{Cc}/u.test(text)) return text;
  // JSON leaves some of them as they are, for instance U+009B, which begins a sequence, too.
  return JSON.stringify(text).replace(
    /\p{Cc}/gu,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A label for a terminal: others may write to the store. */
export function printableLabel(label: string | undefined): string {
  return label === undefined ? "(no label)" : printable(label);
}
