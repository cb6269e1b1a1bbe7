/**
 * How far a run of `deno test` is, read from its output while it runs. The counts at its end are in
 * `summary.ts`.
 *
 * @module
 */
import { withoutColours } from "./summary.ts";

/** The line of one test. A step has its test's name before its own, with dots in between. */
const TEST_LINE = /^(?:(\S+\.[jt]s) => )?(?:(?! \.\.\. ).)+ \.\.\. (ok|FAILED|ignored)\b/;

/** Counts the tests and files that have appeared in the output. */
export class Progress {
  readonly #fileCount: number;
  readonly #startMs = performance.now();
  readonly #files = new Set<string>();
  #testCount = 0;
  #failedCount = 0;
  /** The beginning of a line that has not arrived as a whole. */
  #rest = "";

  /** @param fileCount The number of files in the run. */
  constructor(fileCount: number) {
    this.#fileCount = fileCount;
  }

  /** Reads the next part of the output. */
  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) this.#read(withoutColours(line));
  }

  /** How long the run has taken: `7 min 30 s`. */
  get time(): string {
    const seconds = Math.round((performance.now() - this.#startMs) / 1_000);
    return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }

  /** One line for the user. */
  get line(): string {
    const files = `${this.#files.size} of ${this.#fileCount} files done`;
    return `After ${this.time}: ${files}, ${this.#testCount} tests done, ${this.#failedCount} failed`;
  }

  #read(line: string): void {
    const [, file, result] = TEST_LINE.exec(line) ?? [];
    if (result === undefined) return;
    if (file !== undefined) this.#files.add(file);
    if (result !== "ignored") this.#testCount++;
    if (result === "FAILED") this.#failedCount++;
  }
}
