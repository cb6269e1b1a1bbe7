/**
 * The output of a run: on the terminal as much as a reader needs, in a log file everything.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is the output of a command
import type { Buffer } from "node:buffer";
import { appendFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { withoutColours } from "./summary.ts";

const BAR_WIDTH = 24;
const CLEAR_LINE = "\r\x1b[K";

/** The terminal and the log file of a run. */
export class Output {
  /** The path of the log file. */
  readonly logPath: string;
  readonly #isVerbose: boolean;
  #hasBar = false;

  /** @param isVerbose Whether the terminal gets everything, too. */
  constructor(isVerbose: boolean) {
    this.#isVerbose = isVerbose;
    const time = new Date().toISOString().replaceAll(/[:.]/g, "-");
    this.logPath = `${tmpdir()}/holdfast-tests-${time}-${process.pid}.log`;
    // Only a new file: the name can be guessed, and the folder belongs to all users.
    writeFileSync(this.logPath, "", { flag: "wx", mode: 0o600 });
  }

  /** Prints a line, or several. */
  line(text: string): void {
    this.log(text);
    this.#print(text);
  }

  /** Prints why a run is not green to the error output. */
  problem(text: string): void {
    this.log(text);
    this.clearBar();
    console.error(text);
  }

  /** Writes to the log only, unless everything is wanted. */
  detail(text: string): void {
    this.log(text);
    if (this.#isVerbose) this.#print(text);
  }

  /** Prints a part of a child's output at once; the log gets all of it at the end, by `log()`. */
  async part(bytes: Buffer): Promise<void> {
    await new Promise<void>((resolve) => process.stdout.write(bytes, () => resolve()));
  }

  /** Writes to the log only. */
  log(text: string): void {
    appendFileSync(this.logPath, `${withoutColours(text)}\n`);
  }

  /** Shows on a terminal how many files are done, and how long the others will take. */
  bar(done: number, count: number, elapsedMs: number): void {
    if (!process.stdout.isTTY) return;
    process.stdout.write(`${CLEAR_LINE}${barOf(done, count, elapsedMs)}`);
    this.#hasBar = true;
  }

  /** Removes the bar. */
  clearBar(): void {
    if (this.#hasBar) process.stdout.write(CLEAR_LINE);
    this.#hasBar = false;
  }

  #print(text: string): void {
    this.clearBar();
    console.log(text);
  }
}

/** How many files are done, as a bar, and how long the others take if they are like those. */
export function barOf(done: number, count: number, elapsedMs: number): string {
  const bar = "#".repeat(Math.round(BAR_WIDTH * done / count)).padEnd(BAR_WIDTH, "-");
  const left = done === 0 ? "" : `, about ${timeOf(elapsedMs / done * (count - done))} left`;
  return `[${bar}] ${done} of ${count} files${left}`;
}

/** A time for a reader: `7 min 30 s`. */
export function timeOf(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
