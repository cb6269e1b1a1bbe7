/**
 * A clock for tests: time passes only when a test says so. Runs no real timers.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
  isHeld: boolean;
}

/** A clock whose monotonic and wall time move only by its methods. */
export class FakeClock implements Clock {
  #nowMs = 1_000;
  #wallMs = 1_000_000;
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#nowMs;
  }

  wall(): number {
    return this.#wallMs;
  }

  schedule(callback: () => void, delayMs: number): () => void {
    const timer: Timer = { atMs: this.#nowMs + Math.max(0, delayMs), callback, isHeld: true };
    this.#timers.add(timer);
    return Object.assign(() => void this.#timers.delete(timer), {
      ref: () => timer.isHeld = true,
      unref: () => timer.isHeld = false,
    });
  }

  /** Number of timers that are set. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Number of timers that keep the process alive. */
  get held(): number {
    return [...this.#timers].filter(({ isHeld }) => isHeld).length;
  }

  /** Lets time pass: runs the timers that become due, in order, and the promise reactions after each. */
  async pass(durationMs: number): Promise<void> {
    const endMs = this.#nowMs + durationMs;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter(({ atMs }) => atMs <= endMs)
        .sort((a, b) => a.atMs - b.atMs)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#set(Math.max(due.atMs, this.#nowMs));
      due.callback();
      await settle();
    }
    this.#set(endMs);
    await settle();
  }

  /** Lets time pass without running timers, as when the event loop is blocked. */
  block(durationMs: number): void {
    this.#set(this.#nowMs + durationMs);
  }

  /** Moves wall time alone, as when the clock is set or the machine has slept. */
  stepWall(durationMs: number): void {
    this.#wallMs += durationMs;
  }

  #set(nowMs: number): void {
    this.#wallMs += nowMs - this.#nowMs;
    this.#nowMs = nowMs;
  }
}

/** Runs the promise reactions that are due, and those that they cause. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}
