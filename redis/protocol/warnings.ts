/**
 * Warnings: what the user should know and no call can report. Knows only where they go.
 *
 * @module
 */

/** The warnings of one instance. Each text is passed on once. */
export class Warnings {
  readonly #onWarning: (message: string) => void;
  readonly #given = new Set<string>();

  /** @param onWarning The user's option: gets the warnings. */
  constructor(onWarning: (message: string) => void) {
    this.#onWarning = onWarning;
  }

  /** Passes a warning on, unless the same one was given before. */
  warn(message: string): void {
    if (this.#given.has(message)) return;
    this.#given.add(message);
    this.#onWarning(message);
  }
}
