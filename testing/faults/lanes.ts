/**
 * The layout of calls in a picture: lanes for workers, rows for their calls.
 *
 * @module
 */
import type { Call } from "./calls.ts";

/** The height of a lane without rows. */
export const LANE = 18;
/** The height of a row; concurrent calls of a worker have a row each. */
export const ROW = 9;

/** The place of a lane. */
export interface Lane {
  readonly y: number;
  readonly height: number;
}

/** When a call, and its lease, are over; at most 10 s after its last event. */
export function goneUs({ failedUs, grantedUs, endUs, events }: Call): number {
  const lastUs = events.at(-1)!.atUs;
  if (failedUs < Infinity || grantedUs === Infinity) return lastUs;
  return Math.max(lastUs, Math.min(endUs, lastUs + 10e6));
}

/** Assigns a row to each call, so that calls of one worker do not hide each other. */
export function pack(calls: readonly Call[]): Map<Call, number> {
  const rows = new Map<Call, number>();
  for (const ofWorker of Map.groupBy(calls, ({ worker }) => worker).values()) {
    const freeUs: number[] = [];
    for (const call of ofWorker.toSorted((a, b) => a.invokeUs - b.invokeUs)) {
      const free = freeUs.findIndex((us) => us <= call.invokeUs);
      const row = free >= 0 ? free : freeUs.length;
      freeUs[row] = goneUs(call);
      rows.set(call, row);
    }
  }
  return rows;
}

/** Stacks lanes, each as high as its rows need. */
export function stack(
  names: readonly string[],
  calls: readonly Call[],
  rows: ReadonlyMap<Call, number>,
): { lanes: Map<string, Lane>; height: number } {
  const last = new Map<string, number>();
  for (const call of calls) {
    last.set(call.worker, Math.max(rows.get(call)!, last.get(call.worker) ?? 0));
  }
  const lanes = new Map<string, Lane>();
  let y = 0;
  for (const name of names) {
    const height = Math.max(LANE, ((last.get(name) ?? 0) + 1) * ROW + 3);
    lanes.set(name, { y, height });
    y += height;
  }
  return { lanes, height: y };
}
