import { duration } from "../core/contract/options.ts";
import { type Timed, TimeHeap } from "../core/time/time_heap.ts";

/** As it was before a test replaced it. */
const { setTimeout } = globalThis;
export const DURATION = duration({ min: 0 });

/** The services of the locks on a clock: they go on while the process is suspended. */
const services = new WeakMap<FakeClock, Set<() => void>>();

/** Calls `listener` after each suspension, until the signal aborts. */
export function onSuspension(clock: FakeClock, listener: () => void, until: AbortSignal): void {
  const listeners = services.get(clock) ?? new Set();
  services.set(clock, listeners.add(listener));
  until.addEventListener("abort", () => listeners.delete(listener), { once: true });
}

/**
 * A clock that stands still until its test lets time pass. Only the {@linkcode FakeLock} that gets it goes by
 * it: the timers of the runtime, and so of `AbortSignal.timeout()`, do not.
 *
 * @example A lease that nobody renews
 * ```ts
 * import { FakeClock, FakeLock } from "@holdfast/lock/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const clock = new FakeClock();
 * await using locks = new FakeLock({ clock, ttlMs: 10_000 });
 * const lease = await locks.acquire("orders:42", { autoRenew: false });
 * assertEquals(lease.isHeld, true);
 * await clock.advance(10_000);
 * assertEquals(lease.isHeld, false);
 * ```
 */
export class FakeClock {
  #nowMs = 0;
  #wallMs = Date.UTC(2026, 0, 1);
  #timerCount = 0;
  readonly #timers = new TimeHeap<Timed & { readonly callback: () => void }>();

  /** The monotonic time in ms since the clock was made. */
  now(): number {
    return this.#nowMs;
  }

  /** The wall time in ms since the epoch. It starts with the year 2026. */
  wall(): number {
    return this.#wallMs;
  }

  /**
   * Sets a timer, which calls `callback` once.
   *
   * @param delayMs After how many ms; a fraction is rounded up.
   * @returns A function that cancels the timer.
   */
  schedule(callback: () => void, delayMs: number): () => void {
    // Whole ms, as the timers of runtimes: sums of fractions would come out a little early.
    const atMs = this.#nowMs + Math.max(0, Math.ceil(delayMs));
    const timer = { atMs, order: this.#timerCount++, index: -1, callback };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /**
   * Lets time pass: fires the timers that become due, in order. After each, and at the end, all promises
   * that need no timer and no I/O of the runtime have settled.
   *
   * @param durationMs How long, in ms; 0 to let promises settle only.
   * @throws {TypeError} If the duration is not a number.
   * @throws {RangeError} If it is not a whole number from 0 to 2,147,483,647.
   */
  async advance(durationMs: number): Promise<void> {
    DURATION.check("'durationMs'", durationMs);
    const endMs = this.#nowMs + durationMs;
    await settled();
    for (;;) {
      const { first } = this.#timers;
      if (first === undefined || first.atMs > endMs) break;
      this.#timers.delete(first);
      this.#moveTo(first.atMs);
      first.callback();
      await settled();
    }
    this.#moveTo(endMs);
    await settled();
  }

  /**
   * Suspends the process, as when a laptop sleeps: wall time passes, at the service too, but no timer fires. Afterwards
   * a lease is unproven until a renewal is answered; a lock whose TTL is over is free, or its next waiter has it.
   *
   * @param durationMs How long, in ms.
   * @throws {TypeError} If the duration is not a number.
   * @throws {RangeError} If it is not a whole number from 0 to 2,147,483,647.
   */
  suspend(durationMs: number): void {
    DURATION.check("'durationMs'", durationMs);
    this.#wallMs += durationMs;
    for (const listener of services.get(this) ?? []) listener();
  }

  #moveTo(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#nowMs);
    this.#nowMs += passedMs;
    this.#wallMs += passedMs;
  }
}

/** Resolves when the promises that wait for nothing else have settled. */
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
