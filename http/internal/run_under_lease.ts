/**
 * Runs a handler under a lease, and reports which came first: the handler's end or the loss of the
 * lease. The callers acquire the lease (`acquire.ts`) and release it (`lease_end.ts`), not this file.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import { lossOf } from "./lease_end.ts";

/** The outcome of a run. */
export type RunResult<T> =
  /** The handler has returned this value. */
  | { readonly state: "done"; readonly value: T }
  /** The handler has thrown this error. */
  | { readonly state: "failed"; readonly error: unknown }
  /**
   * The lease is lost. The handler may still run: it cannot be stopped. The lock may be kept for it, if it was
   * disposed, so it must not be released before `ended` resolves.
   */
  | { readonly state: "lost"; readonly error: unknown; readonly ended: Promise<void> };

/**
 * Runs the handler until it ends or the lease is lost, whichever comes first. If the lease is lost
 * first, this returns at once: a handler that ignores `lease.signal` runs on, but nothing waits for it.
 * If the lease is already lost at the start, the handler is not run.
 *
 * When the handler ends first, the lease is checked once more, since timers may be late: `"done"` and
 * `"failed"` mean that the lease was not lost by then. Nothing here releases the lock: the caller does.
 *
 * @param onLate Called after a loss, with the result of the handler when it ends; not called if the
 * handler fails because of the loss.
 */
export async function runUnderLease<T>(
  lease: Lease,
  handler: () => T | Promise<T>,
  onLate: (late: RunResult<T>) => void = () => {},
): Promise<RunResult<T>> {
  const { signal } = lease;
  if (signal.aborted) return { state: "lost", error: signal.reason, ended: Promise.resolve() };
  const { promise: lost, resolve: lose } = Promise.withResolvers<null>();
  const onAbort = () => lose(null);
  const running = promiseTry(handler).then(
    (value): RunResult<T> => ({ state: "done", value }),
    (error): RunResult<T> => ({ state: "failed", error }),
  );
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) lose(null); // the handler's first step has lost it
  const result = await Promise.race([running, lost]);
  signal.removeEventListener("abort", onAbort);
  const loss = result === null ? signal.reason : await lossOf(lease);
  if (result !== null && loss === null) return result;
  running.then((late) => {
    if (late.state === "failed" && stemsFrom(late.error, signal.reason)) return;
    onLate(late);
  });
  return { state: "lost", error: loss, ended: running.then(() => {}) };
}

/** Whether an error is `reason`, or has it as its cause, like that of a call which `reason` aborted. */
function stemsFrom(error: unknown, reason: unknown): boolean {
  return error === reason || error instanceof Error && error.cause === reason;
}
