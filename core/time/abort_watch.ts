/**
 * Many calls that wait for the same abort signal. A wait for one promise is `abortable()` in `clock.ts`.
 *
 * @module
 */

export interface AbortListener {
  onAborted(): void;
}

/**
 * One event listener per signal. Thousands of listeners on one `AbortSignal` are slow: it looks through
 * all of them to add or remove one.
 */
export class AbortWatch {
  readonly #signals = new Map<
    AbortSignal,
    { readonly listeners: Set<AbortListener>; readonly onAbort: () => void }
  >();

  /** Notifies the listener when the signal aborts, not if it is aborted already. */
  add(signal: AbortSignal, listener: AbortListener): void {
    const watched = this.#signals.get(signal) ?? this.#watch(signal);
    watched.listeners.add(listener);
  }

  delete(signal: AbortSignal, listener: AbortListener): void {
    const watched = this.#signals.get(signal);
    if (watched === undefined) return;
    watched.listeners.delete(listener);
    if (watched.listeners.size > 0) return;
    signal.removeEventListener("abort", watched.onAbort);
    this.#signals.delete(signal);
  }

  #watch(signal: AbortSignal) {
    const listeners = new Set<AbortListener>();
    const onAbort = () => {
      for (const listener of [...listeners]) listener.onAborted();
    };
    const watched = { listeners, onAbort };
    signal.addEventListener("abort", onAbort);
    this.#signals.set(signal, watched);
    return watched;
  }
}
