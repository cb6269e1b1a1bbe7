/**
 * Taking the lock for a request: a bounded wait, and what each end of it means.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../core/distributed_lock.ts";
import { checkName } from "../../core/validate.ts";
import { type HoldSettings, type LockKey, report } from "./options.ts";
import { badKey, busy, type Problem, unavailable } from "./problem.ts";

/** How taking the lock ended. */
export type Taken =
  | { readonly state: "held"; readonly lease: Lease }
  /** There is no lock for this request, or it goes on without. */
  | { readonly state: "unlocked" }
  | { readonly state: "refused"; readonly problem: Problem; readonly cause?: unknown }
  /** The client went away: nobody waits for an answer. */
  | { readonly state: "gone" };

const UNLOCKED: Taken = { state: "unlocked" };
const GONE: Taken = { state: "gone" };

/** How long in ms a refusal may wait to learn the holder's TTL. */
const QUERY_MS = 500;

/** The name of the lock for this request. */
export function nameOf<Args extends unknown[]>(
  key: LockKey<Args>,
  ...args: Args
): string | undefined | Promise<string | undefined> {
  return typeof key === "string" ? key : key(...args);
}

/**
 * Takes the lock, waiting for it as long as the settings allow. A client that goes away ends the wait
 * and leaves the queue; a lease that is granted at that very moment is given back.
 *
 * @throws {TypeError} If the name is not even a string.
 */
export async function take(
  lock: DistributedLock,
  name: string | undefined,
  settings: HoldSettings,
  gone?: AbortSignal,
): Promise<Taken> {
  if (name === undefined) return UNLOCKED;
  const flaw = typeof name === "string" ? flawOf(name) : null;
  if (flaw !== null) return refuseKey(flaw);
  if (gone?.aborted) return GONE;
  using wait = settings.waitMs === 0 ? null : new Wait(settings.waitMs, gone);
  try {
    const { maxHoldMs, autoRenew = true } = settings;
    const options = { maxHoldMs, autoRenew };
    const lease = wait === null
      ? await lock.tryAcquire(name, gone === undefined ? options : { ...options, signal: gone })
      : await lock.acquire(name, { ...options, signal: wait.signal, onWait: wait.onWait });
    if (lease === null) return await refuseBusy(lock, name, settings);
    if (!gone?.aborted) return { state: "held", lease };
    await lease.release();
    return GONE;
  } catch (error) {
    if (gone?.aborted) return GONE;
    const isOver = wait !== null && wait.signal.aborted && error === wait.signal.reason;
    // A service that has not even said that we must wait is out of reach.
    if (isOver && wait.isQueued) return await refuseBusy(lock, name, settings);
    if (isOver || isUnavailable(error)) return refuseUnavailable(settings, error);
    // All else that is passed was checked when the server started: the strategy refuses the name.
    if (error instanceof RangeError) return refuseKey(error);
    throw error;
  }
}

/** Why no lock can have this name. It may stem from the request: a bad one is the client's. */
function flawOf(name: string): unknown {
  try {
    checkName(name);
    return null;
  } catch (error) {
    return error;
  }
}

function refuseKey(cause: unknown): Taken {
  return { state: "refused", problem: badKey(), cause };
}

/** A wait that ends by its time, or with the client. */
class Wait {
  readonly #controller = new AbortController();
  readonly #gone: AbortSignal | undefined;
  readonly #timer: ReturnType<typeof setTimeout>;
  /** Whether the service has answered that the lock is somebody else's. */
  isQueued = false;

  constructor(waitMs: number, gone: AbortSignal | undefined) {
    this.#gone = gone;
    gone?.addEventListener("abort", this.#leave);
    this.#timer = setTimeout(() => {
      this.#controller.abort(new DOMException("The wait is over", "TimeoutError"));
    }, waitMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly onWait = (): void => void (this.isQueued = true);
  readonly #leave = (): void => this.#controller.abort(this.#gone!.reason);

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#gone?.removeEventListener("abort", this.#leave);
  }
}

async function refuseBusy(
  lock: DistributedLock,
  name: string,
  { busyStatus }: HoldSettings,
): Promise<Taken> {
  return { state: "refused", problem: busy(busyStatus, await remainingMs(lock, name)) };
}

function refuseUnavailable(settings: HoldSettings, error: unknown): Taken {
  report(settings, error);
  if (settings.proceeds) return UNLOCKED;
  return { state: "refused", problem: unavailable(), cause: error };
}

/** The holder's TTL; undefined if it has none, or if the service is slow to tell. */
export async function remainingMs(
  lock: DistributedLock,
  name: string,
): Promise<number | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), QUERY_MS);
  });
  const told = lock.query(name).then(
    ({ holders: [holder] }) => holder?.remainingMs,
    () => undefined,
  );
  const ms = await Promise.race([told, late]);
  clearTimeout(timer);
  return ms === Infinity ? undefined : ms;
}

/**
 * Whether nothing is known of the lock. Names, not classes: the lock may come from another copy of
 * this package. A lock that was disposed of belongs to a server that is about to end.
 */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { name } = error;
  if (error instanceof DOMException) return name === "InvalidStateError" || name === "AbortError";
  return name === "LockUnavailableError";
}
