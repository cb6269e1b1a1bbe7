/**
 * Shows on the error output how far a suite is.
 *
 * @module
 */
import process from "node:process";

/** Where there is no terminal, a line is printed this often. */
const LINE_EVERY_MS = 10_000;

/** Counts the steps of a suite. */
export interface Progress {
  /** Announces more steps. */
  expect(steps: number): void;
  /** A step begins. */
  step(label: string): void;
  /** All steps are done. */
  done(): void;
}

/** The line for a step. */
export function progressLine(
  title: string,
  { step, steps, elapsedMs, label }: {
    readonly step: number;
    readonly steps: number;
    readonly elapsedMs: number;
    readonly label: string;
  },
): string {
  const done = step - 1;
  const left = done === 0 ? "" : `, ${timeLeft((elapsedMs / done) * (steps - done))} left`;
  return `${title}: ${step} of ${steps}${left}: ${label}`;
}

function timeLeft(ms: number): string {
  const seconds = Math.ceil(ms / 1_000);
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

/** Shows progress on the error output: one line that changes on a terminal, else a line now and then. */
export function showProgress(title: string): Progress {
  const { stderr } = process;
  const startMs = performance.now();
  let shownMs = -Infinity;
  let step = 0;
  let steps = 0;
  return {
    expect(more) {
      steps += more;
    },
    step(label) {
      const nowMs = performance.now();
      step++;
      if (!stderr.isTTY && nowMs - shownMs < LINE_EVERY_MS) return;
      shownMs = nowMs;
      const elapsedMs = nowMs - startMs;
      const line = progressLine(title, { step, steps: Math.max(step, steps), elapsedMs, label });
      stderr.write(stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
    },
    done() {
      const seconds = Math.round((performance.now() - startMs) / 1_000);
      stderr.write(`${stderr.isTTY ? "\r\x1b[K" : ""}${title}: ${step} steps in ${seconds} s\n`);
    },
  };
}
