/**
 * Tracks work that outlives the call that started it, such as a clean-up. Does none of that work.
 *
 * @module
 */

/** Tracks background work, so that disposal can wait for it. */
export class Background {
  readonly #tasks = new Set<Promise<void>>();
  #calls = 0;
  #whenQuiet: (() => void) | null = null;

  /**
   * Starts a task. Resolves at its end. Its errors are ignored: a task must itself report what the user
   * needs to know.
   */
  run(task: () => Promise<unknown>): Promise<void> {
    const running: Promise<void> = task().then(() => {}, () => {}).finally(() => {
      this.#tasks.delete(running);
    });
    this.#tasks.add(running);
    return running;
  }

  /**
   * Marks the start of a call that may leave a task behind; {@linkcode Background.exit} must follow.
   */
  enter(): void {
    this.#calls++;
  }

  /** Marks the end of such a call. */
  exit(): void {
    if (--this.#calls === 0) this.#whenQuiet?.();
  }

  /** Resolves when no call and no task is running, also none that started after this was called. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0 || this.#calls > 0) {
      await Promise.all(this.#tasks);
      if (this.#calls > 0) await new Promise<void>((resolve) => this.#whenQuiet = resolve);
    }
  }
}
