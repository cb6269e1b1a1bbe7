/**
 * One waiter of a lock file, which sleeps until the file has changed.
 *
 * @module
 */
import { SYSTEM_CLOCK } from "../core/time/clock.ts";

/** Its timer keeps the process alive. */
export class Waiter {
  /** The path of the lock file. */
  readonly path: string;
  /** How many looks in a row have found the file locked, but not marked as held. */
  unmarkedLooks = 0;
  /** Since the last sleep. True at first: the file may have changed before it was watched. */
  #hasChanged = true;
  #end: (() => void) | null = null;

  constructor(path: string) {
    this.path = path;
  }

  /** Ends the current sleep, or else the next one at its start. */
  wake(): void {
    this.#hasChanged = true;
    this.#end?.();
  }

  /** Sleeps `timeoutMs` at most, or until the signal aborts. */
  async sleep(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#hasChanged && !signal.aborted) await this.#sleep(timeoutMs, signal);
    this.#hasChanged = false;
  }

  #sleep(timeoutMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        this.#end = null;
        resolve();
      };
      const cancel = SYSTEM_CLOCK.schedule(end, timeoutMs);
      signal.addEventListener("abort", end);
      this.#end = end;
    });
  }
}
