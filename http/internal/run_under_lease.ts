/**
 * Runs a handler under a lease until it ends or the lease is lost. How the lease was acquired is in
 * `acquire.ts`; how it ends is in `lease_end.ts`.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { promiseTry } from "../../core/promise_try.ts";
import { lossOf } from "./lease_end.ts";

/** How a handler ended. */
export type RunResult<T> =
  | { readonly state: "done"; readonly value: T }
  | { readonly state: "failed"; readonly error: unknown }
  /** The lease was lost before the handler ended; the handler may still run, in vain. */
  | { readonly state: "lost"; readonly error: unknown };

/**
 * Runs the handler. A loss of the lease is the result at once, even if the handler ignores it. The
 * handler is not run if the lease is lost before.
 *
 * @param onLate Called with the result of a handler that ends after the loss, unless it fails because
 * of the loss.
 */
export async function runUnderLease<T>(
  lease: Lease,
  handler: () => T | Promise<T>,
  onLate: (late: RunResult<T>) => void = () => {},
): Promise<RunResult<T>> {
  const { signal } = lease;
  if (signal.aborted) return { state: "lost", error: signal.reason };
  const { promise: lost, resolve: lose } = Promise.withResolvers<RunResult<T>>();
  const onAbort = () => lose({ state: "lost", error: signal.reason });
  const running = promiseTry(handler).then(
    (value): RunResult<T> => ({ state: "done", value }),
    (error): RunResult<T> => ({ state: "failed", error }),
  );
  signal.addEventListener("abort", onAbort);
  const result = await Promise.race([running, lost]);
  signal.removeEventListener("abort", onAbort);
  const loss = result.state === "lost" ? null : await lossOf(lease);
  if (result.state !== "lost" && loss === null) return result;
  running.then((late) => {
    if (late.state === "failed" && stemsFrom(late.error, signal.reason)) return;
    onLate(late);
  });
  return result.state === "lost" ? result : { state: "lost", error: loss };
}

/** Whether an error is `reason` itself, or was caused by it: a call that `reason` aborted. */
function stemsFrom(error: unknown, reason: unknown): boolean {
  return error === reason || error instanceof Error && error.cause === reason;
}
