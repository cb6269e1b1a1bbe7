/**
 * Waits for abort signals that many others wait for, too, perhaps as long as the process lives. All code that waits
 * for a signal of somebody else goes through here: thousands of listeners on one `AbortSignal` are slow, as it looks
 * through all of them to add or remove one; and Node 22 stalls for seconds after some 10,000 signals that
 * `AbortSignal.any()` has made of one that lives on.
 *
 * @module
 */

export interface AbortListener {
  onAborted(): void;
}

/** One event listener per signal. A signal that nobody waits for has none. */
const watches = new WeakMap<AbortSignal, {
  readonly listeners: Set<AbortListener>;
  readonly onAbort: () => void;
}>();

/** Notifies the listener when the signal aborts, not if it is aborted already. */
export function watchAbort(signal: AbortSignal, listener: AbortListener): void {
  let watch = watches.get(signal);
  if (watch === undefined) {
    const listeners = new Set<AbortListener>();
    const onAbort = () => {
      for (const each of [...listeners]) if (listeners.has(each)) each.onAborted();
    };
    watches.set(signal, watch = { listeners, onAbort });
    signal.addEventListener("abort", onAbort);
  }
  watch.listeners.add(listener);
}

export function unwatchAbort(signal: AbortSignal, listener: AbortListener): void {
  const watch = watches.get(signal);
  if (watch === undefined) return;
  watch.listeners.delete(listener);
  if (watch.listeners.size > 0) return;
  signal.removeEventListener("abort", watch.onAbort);
  watches.delete(signal);
}

/** What ends a call of a strategy: disposal, and its caller's signal, if any. `end()` must follow the call. */
export function callSignal(
  signal: AbortSignal | undefined,
  ended: AbortSignal,
): Pick<CallSignal, "signal" | "end"> {
  return signal === undefined ? { signal: ended, end: () => {} } : new CallSignal(signal, ended);
}

/** The signal of one call: aborts when one of the signals does that end the call, until `end()`. */
export class CallSignal implements AbortListener {
  readonly #controller = new AbortController();
  readonly #sources: readonly AbortSignal[];

  constructor(...sources: readonly (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) watchAbort(source, this);
    if (this.#sources.some(({ aborted }) => aborted)) this.onAborted();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
  }

  onAborted(): void {
    this.abort(this.#sources.find(({ aborted }) => aborted)?.reason);
  }

  /** The call is over. Must be called, or the signals keep this one. */
  end(): void {
    for (const source of this.#sources) unwatchAbort(source, this);
  }
}
