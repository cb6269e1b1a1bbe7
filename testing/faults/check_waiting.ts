/**
 * The checks of calls and of their queue: calls that never end, starvation, inversions.
 *
 * @module
 */
import type { Call } from "./calls.ts";
import { inversionExcuse, parkingOf, waitExcuse } from "./excuses.ts";
import { file, type Report } from "./findings.ts";
import type { FaultEvent, WorkerEvent } from "./history.ts";

/** The limits beyond which a waiting call starves. */
export interface WaitLimits {
  /** The longest wait, in µs. */
  readonly waitUs: number;
  /** The number of later calls that must be served during that wait. */
  readonly overtakers: number;
}

/** Far longer than any lease lasts, in µs: a lease that is still open after this time would never have ended. */
const LEASE_ENDS_WITHIN_US = 15_000_000;

/** Checks that every call and every lease ends, unless the worker was killed first. */
export function checkEnds(calls: readonly Call[], report: Report): void {
  for (const { events, isCrashed, diedUs, worker, name, grantedUs, failedUs } of calls) {
    const last = events.at(-1)!;
    const countOf = (kind: WorkerEvent["kind"]) =>
      events.filter((event) => event.kind === kind).length;
    const problem = countOf("invoke") !== 1
      ? "was called other than once"
      : countOf("granted") + countOf("failed") > 1
      ? "has ended more than once"
      : undefined;
    const add = (kind: "malformed" | "unfinished", message: string) =>
      report.violations.add({ kind, atUs: last.atUs, name, message, events });
    if (problem) add("malformed", `${worker}'s call ${last.call} ${problem}`);
    const isCutShort = isCrashed &&
      (grantedUs === Infinity || diedUs - last.atUs < LEASE_ENDS_WITHIN_US);
    if (isCutShort || failedUs < Infinity) continue;
    if (grantedUs === Infinity) add("unfinished", `${worker}'s call ${last.call} never ended`);
    else if (countOf("released") === 0 && (countOf("releasing") > 0 || countOf("lost") === 0)) {
      add("unfinished", `${worker}'s lease of call ${last.call} never ended`);
    }
  }
}

/** Checks that no call waits for long while many later calls are served. */
export function checkProgress(
  calls: readonly Call[],
  { waitUs, overtakers }: WaitLimits,
  faults: readonly FaultEvent[],
  endOfRunUs: number,
  report: Report,
): void {
  const endOf = ({ grantedUs, failedUs, diedUs }: Call) =>
    Math.min(grantedUs, failedUs, diedUs, endOfRunUs);
  const slow = calls.filter((call) => endOf(call) - call.invokeUs > waitUs);
  const counts = overtakersOf(slow, endOf, calls);
  for (const call of slow) {
    const { worker, name, invokeUs, events } = call;
    const count = counts.get(call)!;
    if (count < overtakers) continue;
    const atUs = endOf(call);
    const message = `${worker} waited ${Math.round((atUs - invokeUs) / 1_000)} ms while ${count} ` +
      "later calls were served";
    const excuse = waitExcuse(parkingOf(faults, worker), call, atUs);
    file(report, { kind: "starved", atUs, name, message, events }, excuse);
  }
}

/** For each slow call: how many calls came after it and were granted before its end. */
function overtakersOf(
  slow: readonly Call[],
  endOf: (call: Call) => number,
  calls: readonly Call[],
): Map<Call, number> {
  const granted = calls.filter(({ grantedUs }) => grantedUs < Infinity)
    .sort((a, b) => a.grantedUs - b.grantedUs);
  const invokes = Float64Array.from(granted, ({ invokeUs }) => invokeUs).sort();
  const later = newCounter(invokes.length);
  const counts = new Map<Call, number>();
  let next = 0;
  for (const call of slow.toSorted((a, b) => endOf(a) - endOf(b))) {
    for (; next < granted.length && granted[next]!.grantedUs < endOf(call); next++) {
      later.add(rankOf(invokes, granted[next]!.invokeUs));
    }
    counts.set(call, later.from(rankOf(invokes, call.invokeUs + 1)));
  }
  return counts;
}

/** The number of smaller values. */
function rankOf(sorted: Float64Array, value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Counts per index, and the sum from an index on, in logarithmic time (a Fenwick tree). */
function newCounter(size: number): { add(index: number): void; from(index: number): number } {
  const tree = new Uint32Array(size + 1);
  return {
    add(index) {
      for (let i = size - index; i <= size; i += i & -i) tree[i]!++;
    },
    from(index) {
      let sum = 0;
      for (let i = size - index; i > 0; i -= i & -i) sum += tree[i]!;
      return sum;
    },
  };
}

/**
 * Checks that no call is granted before a waiter that was in the queue when it was made. Shared calls may be
 * granted together, and learn of it in any order: those are not compared with each other. Calls with a
 * chosen owner id take over what their id holds, or wait for one another before they ask.
 */
export function checkOrder(
  calls: readonly Call[],
  faults: readonly FaultEvent[],
  report: Report,
): void {
  const inOrder = calls
    .filter(({ grantedUs, steals, owner }) => grantedUs < Infinity && !steals && owner === null)
    .sort((a, b) => a.grantedUs - b.grantedUs);
  const latestUs = { shared: -Infinity, exclusive: -Infinity };
  for (const [index, waiter] of inOrder.entries()) {
    const isOvertaken = latestUs.exclusive > waiter.queuedUs ||
      (!waiter.isShared && latestUs.shared > waiter.queuedUs);
    const mode = waiter.isShared ? "shared" : "exclusive";
    latestUs[mode] = Math.max(latestUs[mode], waiter.invokeUs);
    if (isOvertaken) fileInversion(waiter, inOrder, index, faults, report);
  }
}

/** Finds a call that overtook the waiter, preferably one without an excuse. */
function fileInversion(
  waiter: Call,
  inOrder: readonly Call[],
  index: number,
  faults: readonly FaultEvent[],
  report: Report,
): void {
  const parking = parkingOf(faults, waiter.worker);
  let worst: readonly [Call, FaultEvent | undefined] | undefined;
  // Calls granted before the waiter joined the queue were also made before that.
  for (let i = index - 1; i >= 0 && inOrder[i]!.grantedUs > waiter.queuedUs; i--) {
    const later = inOrder[i]!;
    if (later.invokeUs <= waiter.queuedUs || (later.isShared && waiter.isShared)) continue;
    worst = [later, inversionExcuse(parking, waiter, later)];
    if (worst[1] === undefined) break;
  }
  const [later, excuse] = worst!;
  const { name, grantedUs: atUs } = waiter;
  const aheadUs = later.invokeUs - waiter.queuedUs;
  const message =
    `${later.worker} was granted before ${waiter.worker}, which had joined the queue ` +
    `${aheadUs} µs before that call was made`;
  const events = [...waiter.events, ...later.events].sort((a, b) => a.atUs - b.atUs);
  file(report, { kind: "inversion", atUs, name, message, events }, excuse);
}
