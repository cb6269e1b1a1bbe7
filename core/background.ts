/**
 * Work that outlives the call that caused it: clean-ups.
 *
 * @module
 */

/** Keeps track of background work, so that disposal can wait for it. */
export class Background {
  readonly #tasks = new Set<Promise<void>>();
  #calls = 0;
  #whenQuiet: (() => void) | null = null;

  /** Starts a task. Its failure is its own affair: a task reports what users must know by itself. */
  run(task: () => Promise<unknown>): void {
    const running: Promise<void> = task().then(() => {}, () => {}).finally(() => {
      this.#tasks.delete(running);
    });
    this.#tasks.add(running);
  }

  /** A call begins that may leave a task behind; {@linkcode Background.exit} must follow. */
  enter(): void {
    this.#calls++;
  }

  /** The call has ended. */
  exit(): void {
    if (--this.#calls === 0) this.#whenQuiet?.();
  }

  /** Resolves when nothing runs any more, tasks included that were started meanwhile. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0 || this.#calls > 0) {
      await Promise.all(this.#tasks);
      if (this.#calls > 0) await new Promise<void>((resolve) => this.#whenQuiet = resolve);
    }
  }
}
