/**
 * Measures how late things happen on this machine now, for the times that tests choose
 * (`testing/time.ts`).
 *
 * @module
 */
import process from "node:process";
import { spawnProcess } from "../runtime/processes.ts";
import { pause } from "../servers/wait.ts";
import { TIME_FACTOR, TIME_FACTOR_VARIABLE } from "../time.ts";

/** A shell that computes for about 7 ms: long enough to be interrupted on a busy machine. */
const PROCESS = ["sh", "-c", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done"];
/** How long the process takes at most on two cores on which only a run of the tests goes on. */
const PROCESS_MS = 25;
const TIMER_MS = 5;
const TIMERS = 3;
/** How much later than asked the timers fire at most there. */
const LATENESS_MS = 5;

const MOST = 4;
/** The part of a new sample in the factor: one moment does not change it much. */
const WEIGHT = 0.3;
const FIRST_SAMPLES = 5;
/** A sample costs about 10 ms of a core: this keeps the samples below 1 %. */
const EVERY_MS = 2_000;

/** How many times later things happen than on a machine that only runs the tests: 1 to 4. */
export class TimeFactor {
  /** Whether the environment sets the factor, so that nothing is measured. */
  readonly isFixed: boolean = process.env[TIME_FACTOR_VARIABLE] !== undefined;
  #factor = TIME_FACTOR;
  #least: number | undefined;
  #most: number | undefined;
  #nextMs = 0;

  /** Measures afresh, at the start of a run. */
  async measure(): Promise<void> {
    if (this.isFixed) return;
    const samples: number[] = [];
    for (let i = 0; i < FIRST_SAMPLES; i++) samples.push(await sample());
    this.#set(samples.sort((a, b) => a - b)[Math.floor(FIRST_SAMPLES / 2)]!);
  }

  /** The factor, with one decimal place. */
  get value(): number {
    return Math.round(this.#factor * 10) / 10;
  }

  /** The smallest and the largest value so far: `1 to 2.3`. */
  get range(): string {
    const { value } = this;
    const [least, most] = [this.#least ?? value, this.#most ?? value];
    return least === most ? `${least}` : `${least} to ${most}`;
  }

  /** Follows the machine during a run. Measures nothing if the last time was a moment ago. */
  async update(): Promise<void> {
    if (this.isFixed || performance.now() < this.#nextMs) return;
    this.#nextMs = performance.now() + EVERY_MS;
    const latest = await sample();
    this.#set(this.#factor + WEIGHT * (latest - this.#factor));
  }

  #set(factor: number): void {
    this.#factor = factor;
    this.#least = Math.min(this.#least ?? this.value, this.value);
    this.#most = Math.max(this.#most ?? this.value, this.value);
  }
}

async function sample(): Promise<number> {
  let latenessMs = 0;
  for (let i = 0; i < TIMERS; i++) {
    const startMs = performance.now();
    // No condition: how late the timer fires is what is measured.
    await pause(TIMER_MS);
    latenessMs = Math.max(latenessMs, performance.now() - startMs - TIMER_MS);
  }
  const startMs = performance.now();
  await spawnProcess(PROCESS).ended;
  const processMs = performance.now() - startMs;
  return Math.min(Math.max(latenessMs / LATENESS_MS, processMs / PROCESS_MS, 1), MOST);
}
