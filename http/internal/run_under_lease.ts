/**
 * Working under a lease: how its loss ends the work.
 *
 * @module
 */
import { promiseTry } from "../../core/promise_try.ts";
import type { Lease } from "../../core/distributed_lock.ts";

/** How work under a lease ended. */
export type Outcome<T> =
  | { readonly state: "done"; readonly value: T }
  | { readonly state: "failed"; readonly error: unknown }
  /** The lease was lost before the work was done; it may still go on, to no purpose. */
  | { readonly state: "lost"; readonly error: unknown };

/**
 * Does the work; its loss of the lease is an outcome at once, even if the work takes no notice. Work
 * whose lease is lost before it begins never does.
 *
 * @param onLate Gets what the work comes to after that, unless it fails because of the loss.
 */
export async function workUnder<T>(
  lease: Lease,
  work: () => T | Promise<T>,
  onLate: (late: Outcome<T>) => void = () => {},
): Promise<Outcome<T>> {
  const { signal } = lease;
  if (signal.aborted) return { state: "lost", error: signal.reason };
  const { promise: lost, resolve: lose } = Promise.withResolvers<Outcome<T>>();
  const onAbort = () => lose({ state: "lost", error: signal.reason });
  const working = promiseTry(work).then(
    (value): Outcome<T> => ({ state: "done", value }),
    (error): Outcome<T> => ({ state: "failed", error }),
  );
  signal.addEventListener("abort", onAbort);
  const outcome = await Promise.race([working, lost]);
  signal.removeEventListener("abort", onAbort);
  const loss = outcome.state === "lost" ? null : await lossOf(lease);
  if (outcome.state !== "lost" && loss === null) return outcome;
  working.then((late) => {
    if (late.state === "failed" && stemsFrom(late.error, signal.reason)) return;
    onLate(late);
  });
  return outcome.state === "lost" ? outcome : { state: "lost", error: loss };
}

/** Whether it is the error, or what a function threw that was aborted by it. */
function stemsFrom(error: unknown, reason: unknown): boolean {
  return error === reason || error instanceof Error && error.cause === reason;
}

/**
 * Why the lease is lost; `null` if it is not, also if the work has given it back by itself. A process
 * that was suspended asks the service once more.
 */
export async function lossOf(lease: Lease): Promise<unknown> {
  try {
    lease.throwIfLost();
    return null;
  } catch (error) {
    if (!isLoss(error)) return null;
  }
  try {
    await lease.renew();
    return null;
  } catch (error) {
    return isLoss(error) ? error : null;
  }
}

function isLoss(error: unknown): boolean {
  return error instanceof Error && error.name === "LeaseLostError";
}

/** How long in ms a response may wait for the lock to be given back: it is freed anyway. */
const RELEASE_MS = 1_000;

/** Gives the lock back; waits for the service's answer, but not for long. Never rejects. */
export async function giveBack(lease: Lease): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => timer = setTimeout(resolve, RELEASE_MS));
  await Promise.race([lease.release().then(() => {}, () => {}), late]);
  clearTimeout(timer);
}
