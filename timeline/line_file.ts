import { appendFile, appendFileSync, close, fstatSync, openSync } from "node:fs";
import process from "node:process";

/** The most that waits for the disk, in UTF-16 code units. */
const MAX_PENDING = 4_000_000;

/** A file to which lines are appended without blocking the event loop. */
export class LineFile {
  readonly #fd: number;
  readonly #onFailure: (error: Error) => void;
  #pending = "";
  #dropped = 0;
  #isWriting = false;
  #isEnded = false;
  #ending: Promise<void> | null = null;
  #onIdle: (() => void) | null = null;
  /** A process that exits writes the rest. A line that may be cut before it has an end of its own. */
  readonly #onExit = () => {
    const rest = this.#pending + this.#takeDropped();
    if (rest === "" || this.#isEnded) return;
    try {
      appendFileSync(this.#fd, `\n${rest}`);
    } catch {
      // A full disk must not change how the process exits.
    }
  };

  /** Opens it, or throws the system's error. A new file is readable for its owner only: it has names of locks. */
  constructor(path: string | URL, onFailure: (error: Error) => void) {
    this.#fd = openSync(path, "a", 0o600);
    // The last line of a process that was killed may have no end.
    if (fstatSync(this.#fd).size > 0) this.#pending = "\n";
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
    const text = this.#pending === "" ? this.#takeDropped() : this.#pending;
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

  /** The line that counts those that were left out; empty if there are none. */
  #takeDropped(): string {
    const count = this.#dropped;
    this.#dropped = 0;
    return count === 0 ? "" : `{"on":"dropped","count":${count}}\n`;
  }

  /** Writes what is left, and closes the file. Never rejects. */
  end(): Promise<void> {
    return this.#ending ??= this.#end();
  }

  async #end(): Promise<void> {
    if (this.#isWriting) await new Promise<void>((resolve) => this.#onIdle = resolve);
    this.#isEnded = true;
    process.off("exit", this.#onExit);
    await new Promise<void>((resolve) => close(this.#fd, () => resolve()));
  }
}
