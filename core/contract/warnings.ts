/**
 * Warnings that no call can report. Decides only whether to pass a warning on, not when to warn.
 *
 * @module
 */

import { promiseTry } from "./promise_try.ts";

/** The warnings of one strategy instance. Each text is passed on once. */
export class Warnings {
  readonly #onWarning: (message: string) => void;
  readonly #given = new Set<string>();

  constructor(onWarning: (message: string) => void) {
    this.#onWarning = onWarning;
  }

  /**
   * Passes a warning on, unless the same text was passed on before. An error of the user's callback is
   * ignored: it must change neither the call nor the background work that the warning comes from.
   */
  warn(message: string): void {
    if (this.#given.has(message)) return;
    this.#given.add(message);
    promiseTry(() => this.#onWarning(message)).catch(() => {});
  }
}
