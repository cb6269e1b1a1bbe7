/**
 * Many deadlines on one timer.
 *
 * @module
 */
import type { Clock } from "./clock.ts";

interface Alarm {
  readonly dueMs: number;
  readonly callback: () => void;
}

/**
 * A clock whose `schedule()` shares one timer. Most deadlines are called off before they are due, and
 * arming a timer of the runtime for each costs more than all else that an uncontended lock does here.
 * A timer that nothing needs any more does not keep the process alive; `close()` clears it. After
 * that each alarm has a timer of its own.
 */
export class Alarms implements Clock {
  readonly #clock: Clock;
  readonly #alarms = new Set<Alarm>();
  #timer: ReturnType<Clock["schedule"]> | null = null;
  #timerMs = Infinity;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  wall(): number {
    return this.#clock.wall();
  }

  schedule(callback: () => void, delayMs: number): () => void {
    if (this.#isClosed) return this.#clock.schedule(callback, delayMs);
    const alarm = { dueMs: this.#clock.now() + Math.max(0, delayMs), callback };
    this.#alarms.add(alarm);
    if (alarm.dueMs < this.#timerMs) this.#arm(alarm.dueMs);
    else if (this.#alarms.size === 1) this.#timer?.hold?.(true);
    return () => {
      if (this.#alarms.delete(alarm) && this.#alarms.size === 0) this.#timer?.hold?.(false);
    };
  }

  /** Clears the timer. Alarms that are set go off now: nobody is left waiting. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.();
    this.#timer = null;
    const alarms = [...this.#alarms];
    this.#alarms.clear();
    for (const { callback } of alarms) callback();
  }

  #arm(dueMs: number): void {
    this.#timer?.();
    this.#timerMs = dueMs;
    this.#timer = this.#clock.schedule(() => this.#fire(), dueMs - this.#clock.now());
  }

  #fire(): void {
    this.#timer = null;
    this.#timerMs = Infinity;
    const nowMs = this.#clock.now();
    const due = [...this.#alarms].filter(({ dueMs }) => dueMs <= nowMs)
      .sort((a, b) => a.dueMs - b.dueMs);
    // One that goes off may call off another.
    for (const alarm of due) if (this.#alarms.delete(alarm)) alarm.callback();
    if (this.#isClosed) return;
    let nextMs = Infinity;
    for (const { dueMs } of this.#alarms) nextMs = Math.min(nextMs, dueMs);
    if (nextMs < this.#timerMs) this.#arm(nextMs);
  }
}
