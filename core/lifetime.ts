/**
 * The life of a strategy instance, from its creation to its disposal.
 *
 * @module
 */
import { checkDuration, checkLabel } from "./validate.ts";

/** Options that every strategy takes. */
export interface StrategyOptions {
  /**
   * A readable part of the owner id, shown by `query()`: the name of a service or host, for instance.
   * 1 to 100 characters.
   */
  label?: string;
  /**
   * How long in ms disposal may take: releasing what is held and finishing clean-ups.
   *
   * @default {2000}
   */
  disposeTimeoutMs?: number;
}

/** Default of {@linkcode StrategyOptions.disposeTimeoutMs}. */
export const DEFAULT_DISPOSE_TIMEOUT_MS = 2_000;

/** Tells whether a strategy instance still accepts calls, and ends all its waits at disposal. */
export class Lifetime {
  readonly label: string;
  readonly disposeTimeoutMs: number;
  readonly #ended = new AbortController();
  #disposal: Promise<void> | null = null;

  /**
   * Checks the options.
   *
   * @throws {TypeError|RangeError} If an option is bad.
   */
  constructor({ label, disposeTimeoutMs = DEFAULT_DISPOSE_TIMEOUT_MS }: StrategyOptions) {
    if (label !== undefined) checkLabel(label);
    checkDuration("disposeTimeoutMs", disposeTimeoutMs);
    this.label = label ?? "";
    this.disposeTimeoutMs = disposeTimeoutMs;
  }

  /** Aborts with an `AbortError` at disposal. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Throws an `InvalidStateError` after disposal. */
  throwIfEnded(): void {
    if (!this.#ended.signal.aborted) return;
    throw new DOMException("Cannot use this lock as it was disposed", "InvalidStateError");
  }

  /** Ends all waits, then closes, once; never rejects. */
  end(close: () => Promise<void>): Promise<void> {
    this.#disposal ??= this.#end(close);
    return this.#disposal;
  }

  async #end(close: () => Promise<void>): Promise<void> {
    this.#ended.abort(new DOMException("The lock was disposed", "AbortError"));
    try {
      await close();
    } catch {
      // A disposal that rejects would hide the error of the block that it closes.
    }
  }

  /** A signal that ends a wait: the caller's own and disposal. */
  waitSignal(signal?: AbortSignal): AbortSignal {
    return signal === undefined ? this.ended : AbortSignal.any([signal, this.ended]);
  }
}
