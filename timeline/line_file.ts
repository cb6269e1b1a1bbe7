/**
 * A file to which lines are appended without blocking the event loop.
 *
 * @module
 */
import { appendFile, appendFileSync, close, openSync } from "node:fs";
import process from "node:process";

/** The most that waits for the disk, in UTF-16 code units. */
const MAX_PENDING = 4_000_000;

/** The file. Only its owner can read it, because names of locks are in it. */
export class LineFile {
  readonly #fd: number;
  readonly #onFailure: (error: Error) => void;
  #pending = "";
  #dropped = 0;
  #isWriting = false;
  #isEnded = false;
  #onIdle: (() => void) | null = null;
  /** A process that exits writes the rest. A line that may be cut before it has an end of its own. */
  readonly #onExit = () => {
    if (this.#pending !== "" && !this.#isEnded) appendFileSync(this.#fd, `\n${this.#pending}`);
  };

  /** Opens it, or throws the system's error. */
  constructor(path: string | URL, onFailure: (error: Error) => void) {
    this.#fd = openSync(path, "a", 0o600);
    this.#onFailure = onFailure;
    process.on("exit", this.#onExit);
  }

  /** Appends a line soon. If the disk is too slow, it is left out, and counted. */
  write(line: string): void {
    if (this.#isEnded) return;
    if (this.#pending.length > MAX_PENDING) {
      this.#dropped++;
      return;
    }
    this.#pending += `${line}\n`;
    if (!this.#isWriting) this.#writeNext();
  }

  #writeNext(): void {
    if (this.#pending === "" && this.#dropped > 0) {
      this.#pending = `{"on":"dropped","count":${this.#dropped}}\n`;
      this.#dropped = 0;
    }
    const text = this.#pending;
    this.#isWriting = text !== "" && !this.#isEnded;
    if (!this.#isWriting) return this.#onIdle?.();
    this.#pending = "";
    appendFile(this.#fd, text, (error) => {
      if (error !== null) {
        this.#isEnded = true;
        this.#onFailure(error);
      }
      this.#writeNext();
    });
  }

  /** Writes what is left, and closes the file. Never rejects. */
  async end(): Promise<void> {
    if (this.#isWriting) await new Promise<void>((resolve) => this.#onIdle = resolve);
    this.#isEnded = true;
    process.off("exit", this.#onExit);
    await new Promise<void>((resolve) => close(this.#fd, () => resolve()));
  }
}
