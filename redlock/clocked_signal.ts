import { LeaseLostError } from "../core/contract/errors.ts";
import type { LeaseSet } from "../core/sets/lease_set.ts";

/** The signal of `using()`. */
export type RedlockAbortSignal = AbortSignal & {
  /** Why it has aborted. This and `aborted` read the clock: they are right before any timer has run. */
  readonly error?: Error | undefined;
};

/** A signal that is read may have aborted already. */
export function onAbort(signal: AbortSignal, listener: () => void): void {
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
}

/**
 * Makes the signal of `using()`. Reading its `aborted` or `error` reads the clock: after a freeze, a program asks
 * before any timer has run. Once `aborted` was true it stays so, even if a suspension has made the lease only
 * unproven. After `end()` neither changes.
 */
export function clockedSignal(set: LeaseSet): { signal: RedlockAbortSignal; end(): void } {
  const controller = new AbortController();
  const { signal } = controller;
  let error: Error | undefined;
  let isOver = false;
  const abortWith = (reason: Error) => {
    isOver = true; // first: the platform asks `aborted`, too
    error = reason;
    controller.abort(error);
  };
  const abort = () => isOver || abortWith(set.signal.reason);
  const look = () => {
    if (isOver || set.remainingMs > 0) return;
    try {
      set.throwIfLost();
    } catch (loss) {
      if (loss instanceof LeaseLostError) abortWith(loss); // else the routine has released it
    }
  };
  const isAborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")!.get!;
  Object.defineProperties(signal, {
    aborted: { get: () => (look(), isAborted.call(signal)) },
    error: { get: () => (look(), error) },
  });
  onAbort(set.signal, abort);
  return {
    signal,
    end() {
      isOver = true;
      set.signal.removeEventListener("abort", abort);
    },
  };
}
