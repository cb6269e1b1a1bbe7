/**
 * Draws a timeline of the holders of the lock.
 *
 * @module
 */
import type { Hold } from "./history.ts";

/** The width of the drawing, without the names on its left. */
export const TIMELINE_COLUMNS = 72;

/** The shade for each share of a column's time in which the lock was held: none, up to a quarter, … */
const SHADES = [" ", "░", "▒", "▓", "█"] as const;

/** The time span to draw. */
export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The time from the first grant to the last release. */
export function wholeRun(holds: readonly Hold[]): Window {
  let [fromMs, toMs] = [Infinity, -Infinity];
  for (const hold of holds) {
    fromMs = Math.min(fromMs, hold.fromMs);
    toMs = Math.max(toMs, hold.toMs ?? hold.fromMs);
  }
  return { fromMs, toMs: Math.max(toMs, fromMs + 1) };
}

/** A window of `columnMs` per column, from the grant in the middle of the run on. */
export function closeUp(holds: readonly Hold[], columnMs: number): Window {
  const fromMs = holds[Math.floor(holds.length / 2)]!.fromMs;
  return { fromMs, toMs: fromMs + columnMs * TIMELINE_COLUMNS };
}

/** The length in ms of a column. */
export function columnMsOf({ fromMs, toMs }: Window): number {
  return (toMs - fromMs) / TIMELINE_COLUMNS;
}

/** Draws one row per worker. */
export function drawTimeline(holds: readonly Hold[], workers: number, window: Window): string[] {
  const heldMs = Array.from(
    { length: workers },
    () => Array.from({ length: TIMELINE_COLUMNS }, () => 0),
  );
  for (const hold of holds) addHold(heldMs[hold.worker - 1]!, hold, window);
  const columnMs = columnMsOf(window);
  const width = `worker ${workers}`.length;
  return heldMs.map((columns, index) => {
    const row = columns.map((ms) => SHADES[Math.min(4, Math.ceil(4 * ms / columnMs - 1e-6))]);
    return `${`worker ${index + 1}`.padEnd(width)} │${row.join("")}│`;
  });
}

function addHold(columns: number[], { fromMs, toMs }: Hold, window: Window): void {
  const columnMs = columnMsOf(window);
  const end = Math.min(toMs ?? fromMs, window.toMs);
  const start = Math.max(fromMs, window.fromMs);
  let column = Math.floor((start - window.fromMs) / columnMs);
  for (let at = start; at < end; column++) {
    const next = Math.min(end, window.fromMs + (column + 1) * columnMs);
    if (column < TIMELINE_COLUMNS) columns[column]! += next - at;
    at = Math.max(next, at + 1e-6);
  }
}
