import type { RecordedCall } from "./read_recording.ts";

/** The most pieces of time, and names of locks. */
const MAX_BINS = 1_000;
export const MAX_LOCKS = 4_096;
const KEPT_LOCKS = 1_024;

/** What is kept of all calls, however many there are: sums over time and by lock. */
export class Overview {
  /** Pieces of time. `began` are the waits that began in one, less those that ended; `moment` the sum of when. */
  readonly #bins = new Map<number, { began: number; moment: number; grants: number }>();
  readonly #locks = new Map<string, ReturnType<typeof noSums>>();
  /** Times are kept relative to the first one, so that their sums are exact. */
  #zeroMs: number | null = null;
  #binMs = 1;
  #first = Infinity;
  #last = -Infinity;
  calls = 0;
  fromMs = Infinity;
  toMs = -Infinity;
  longestWait: RecordedCall | null = null;
  /** Whether the sums lack locks, or calls of locks, with short waits: there were too many locks. */
  isSumPartial = false;

  add(call: RecordedCall): void {
    const { fromMs, grantedMs, endMs, waitedMs } = call;
    this.#zeroMs ??= fromMs;
    this.calls++;
    this.fromMs = Math.min(this.fromMs, fromMs);
    this.toMs = Math.max(this.toMs, endMs);
    if (call.hasWaited && waitedMs > (this.longestWait?.waitedMs ?? -1)) this.longestWait = call;
    if (call.hasWaited) {
      this.#count(fromMs, 1);
      this.#count(Math.min(grantedMs, endMs), -1);
    }
    if (grantedMs < Infinity) this.#bin(grantedMs).grants++;
    this.#addToLock(call);
  }

  #count(ms: number, sign: 1 | -1): void {
    const bin = this.#bin(ms);
    bin.began += sign;
    bin.moment += sign * (ms - this.#zeroMs!);
  }

  #bin(ms: number) {
    const relativeMs = ms - this.#zeroMs!;
    let index = Math.floor(relativeMs / this.#binMs);
    while (Math.max(index, this.#last) - Math.min(index, this.#first) >= MAX_BINS) {
      this.#widen();
      index = Math.floor(relativeMs / this.#binMs);
    }
    this.#first = Math.min(this.#first, index);
    this.#last = Math.max(this.#last, index);
    let bin = this.#bins.get(index);
    if (bin === undefined) this.#bins.set(index, bin = { began: 0, moment: 0, grants: 0 });
    return bin;
  }

  /** Makes the pieces of time twice as long. */
  #widen(): void {
    const narrow = [...this.#bins];
    this.#bins.clear();
    this.#binMs *= 2;
    this.#first = Math.floor(this.#first / 2);
    this.#last = Math.floor(this.#last / 2);
    for (const [index, { began, moment, grants }] of narrow) {
      const half = Math.floor(index / 2);
      const bin = this.#bins.get(half) ?? { began: 0, moment: 0, grants: 0 };
      this.#bins.set(half, bin);
      bin.began += began;
      bin.moment += moment;
      bin.grants += grants;
    }
  }

  #addToLock(call: RecordedCall): void {
    const key = `${call.strategy}\n${call.name}`;
    let sums = this.#locks.get(key);
    if (sums === undefined) {
      if (this.#locks.size >= MAX_LOCKS) this.#forgetLocks();
      this.#locks.set(key, sums = noSums(call));
    }
    sums.calls++;
    if (call.grantedMs < Infinity) sums.granted++;
    if (call.end.startsWith("lost")) sums.lost++;
    sums.heldMs += call.heldMs;
    sums.longestHoldMs = Math.max(sums.longestHoldMs, call.heldMs);
    if (!call.hasWaited) return;
    sums.waitedMs += call.waitedMs;
    sums.longestWaitMs = Math.max(sums.longestWaitMs, call.waitedMs);
  }

  #forgetLocks(): void {
    const kept = this.locks().slice(0, KEPT_LOCKS);
    this.isSumPartial = true;
    this.#locks.clear();
    for (const sums of kept) this.#locks.set(`${sums.strategy}\n${sums.name}`, sums);
  }

  /** The locks, those with the longest waits first. */
  locks() {
    return [...this.#locks.values()].sort((a, b) =>
      b.longestWaitMs - a.longestWaitMs || b.longestHoldMs - a.longestHoldMs
    );
  }

  /** How many waited, and how many grants there were. */
  charts() {
    const waiting: { atMs: number; value: number }[] = [];
    const grants: { atMs: number; value: number }[] = [];
    let [count, moment, before] = [0, 0, 0];
    for (let index = this.#first; index <= this.#last; index++) {
      const bin = this.#bins.get(index);
      const atMs = this.#zeroMs! + index * this.#binMs;
      // The time that has been waited until the end of this piece is that until its beginning, and more.
      before = count * index * this.#binMs - moment;
      count += bin?.began ?? 0;
      moment += bin?.moment ?? 0;
      const waitedMs = count * (index + 1) * this.#binMs - moment - before;
      waiting.push({ atMs, value: waitedMs < 1e-6 ? 0 : waitedMs / this.#binMs });
      grants.push({ atMs, value: bin?.grants ?? 0 });
    }
    const endMs = this.#zeroMs! + (this.#last + 1) * this.#binMs;
    for (const steps of [waiting, grants]) steps.push({ atMs: endMs, value: 0 });
    const most = (steps: readonly { value: number }[]) =>
      steps.reduce((most, { value }) => Math.max(most, value), 0);
    return [
      { title: "waiting", note: `≤ ${brief(most(waiting))}`, steps: waiting },
      {
        title: "grants",
        note: `≤ ${most(grants)} per ${durationText(this.#binMs)}`,
        steps: grants,
      },
    ];
  }
}

/** The sums of a lock of which no call is counted yet. */
function noSums({ strategy, name }: RecordedCall) {
  return {
    ...{ strategy, name, calls: 0, granted: 0, lost: 0 },
    ...{ waitedMs: 0, longestWaitMs: 0, heldMs: 0, longestHoldMs: 0 },
  };
}

/** A number with three digits or so. */
function brief(value: number): string {
  return String(value >= 100 ? Math.round(value) : Number(value.toFixed(1)));
}

/** A duration for people. */
export function durationText(ms: number): string {
  if (ms >= 60_000) return `${(ms / 60_000).toFixed(1)} min`;
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`;
  return `${ms.toFixed(ms >= 100 ? 0 : 1)} ms`;
}
