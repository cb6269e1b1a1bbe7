/**
 * Acquires the lock for a request within its wait limit, and decides which response each failure gets.
 * Running the handler is in `run_under_lease.ts`.
 *
 * @module
 */
import { SYSTEM_CLOCK, TIMED_OUT, within } from "../../core/time/clock.ts";
import type { DistributedLock, Lease, WaitInfo } from "../../core/contract/distributed_lock.ts";
import { LockUnavailableError } from "../../core/contract/errors.ts";
import { checkName } from "../../core/contract/options.ts";
import { isNoLock, isRefused, type RequestKey } from "./key.ts";
import { type HoldSettings, report } from "./options.ts";
import type { RequestHolds } from "./request_holds.ts";
import { badKey, busy, type Problem, unavailable } from "./problem.ts";
import { WaitLimit } from "./wait_limit.ts";

/** The request that a lock is acquired for. */
export interface Requester {
  /** The locks that the request holds already. */
  readonly holds: RequestHolds;
  /** Aborts when the client disconnects. */
  readonly gone?: AbortSignal | undefined;
}

/** The outcome of acquiring the lock for a request. */
export type AcquireResult =
  | { readonly state: "held"; readonly lease: Lease }
  /** The request runs without a lease: it has no key, or the service is down and it may proceed. */
  | { readonly state: "unlocked" }
  | { readonly state: "failed"; readonly problem: Problem; readonly cause?: unknown }
  /** The client has disconnected: nobody reads a response. */
  | { readonly state: "gone" };

const UNLOCKED: AcquireResult = { state: "unlocked" };
const GONE: AcquireResult = { state: "gone" };

/** How long in ms the response to a busy lock waits to learn how long the holder's lease lasts. */
const QUERY_TIMEOUT_MS = 500;

/**
 * Acquires the lock, and waits for it as long as the settings allow. If the client disconnects, the
 * wait ends and leaves the queue; a lease that is granted at that very moment is released.
 *
 * @throws {LockSetupError} If the lock cannot work as it is set up, or the request holds it already.
 * This is no outage: the request never proceeds without a lease.
 */
export async function acquireForRequest(
  lock: DistributedLock,
  name: RequestKey,
  settings: HoldSettings,
  { holds, gone }: Requester,
): Promise<AcquireResult> {
  if (isNoLock(name)) return UNLOCKED;
  if (isRefused(name)) return { state: "failed", ...name };
  const flaw = flawOf(name);
  if (flaw !== null) return badKeyResult(flaw);
  if (gone?.aborted) return GONE;
  holds.throwIfHeld(name);
  let known: WaitInfo | undefined;
  const limit = settings.waitMs === 0
    ? null
    : new WaitLimit(settings.waitMs, gone === undefined ? [] : [gone]);
  try {
    const { maxHoldMs, autoRenew = true } = settings;
    const onWait = (info: WaitInfo) => void (known = info);
    const options = { maxHoldMs, autoRenew, onWait };
    const lease = limit === null
      ? await lock.tryAcquire(name, gone === undefined ? options : { ...options, signal: gone })
      : await lock.acquire(name, { ...options, signal: limit.signal });
    if (lease === null) return await busyResult(lock, name, settings, known);
    if (gone?.aborted) {
      await lease.release();
      return GONE;
    }
    holds.add(lease);
    return { state: "held", lease };
  } catch (error) {
    if (gone?.aborted) return GONE;
    const isOver = limit !== null && limit.hasCaused(error);
    // Not queued by the end of the wait: the service has not answered at all, so it is out of reach.
    if (isOver && known !== undefined) return await busyResult(lock, name, settings, known);
    // A disposed lock is no outage: its server is about to stop, and no request may run without the lock.
    if (isDisposed(error)) return refusedResult(settings, error);
    if (isOver || isUnavailable(error)) return unavailableResult(settings, error);
    // The options were checked when the server started, so this is the name: a strategy may allow fewer
    // names than `checkName()`.
    if (error instanceof RangeError) return badKeyResult(error);
    throw error;
  } finally {
    limit?.[Symbol.dispose]();
  }
}

/**
 * The error that says why no lock can have this name, or `null`. A bad name is the client's fault: it
 * may come from the request.
 */
function flawOf(name: string): unknown {
  try {
    checkName(name);
    return null;
  } catch (error) {
    return error;
  }
}

function badKeyResult(cause: unknown): AcquireResult {
  return { state: "failed", problem: badKey(), cause };
}

async function busyResult(
  lock: DistributedLock,
  name: string,
  { busyStatus, retryAfterMs }: HoldSettings,
  known: WaitInfo | undefined,
): Promise<AcquireResult> {
  const leastMs = retryAfterMs ?? known?.remainingMs ??
    await holderRemainingMs(lock, name) ?? undefined;
  return { state: "failed", problem: busy(busyStatus, leastMs) };
}

function unavailableResult(settings: HoldSettings, error: unknown): AcquireResult {
  if (settings.onUnavailable === "reject") return refusedResult(settings, error);
  report(settings, error);
  return UNLOCKED;
}

function refusedResult(settings: HoldSettings, cause: unknown): AcquireResult {
  report(settings, cause);
  return { state: "failed", problem: unavailable(), cause };
}

/**
 * How long in ms the holder's lease still lasts; `undefined` if it has no TTL or nobody holds the lock,
 * `null` if the service does not answer in time.
 */
export async function holderRemainingMs(
  lock: DistributedLock,
  name: string,
): Promise<number | undefined | null> {
  // Nobody knows when a session will end, so the answer would not be worth its cost.
  if (lock.capabilities.endsBy === "session") return undefined;
  const answer = lock.query(name, { maxWaiters: 0 }).then(
    ({ holders: [holder] }) => holder?.remainingMs,
    () => null,
  );
  const remainingMs = await within(SYSTEM_CLOCK, answer, QUERY_TIMEOUT_MS);
  if (remainingMs === TIMED_OUT) return null;
  return remainingMs === Infinity ? undefined : remainingMs;
}

/**
 * Whether an error means that the state of the lock is unknown. That includes a disposed lock, whose
 * server is about to stop, but no `LockSetupError`.
 */
export function isUnavailable(error: unknown): boolean {
  return isDisposed(error) || error instanceof LockUnavailableError;
}

/** Whether an error means that the lock was disposed, before the call or during its wait. */
function isDisposed(error: unknown): boolean {
  if (!(error instanceof DOMException)) return false;
  return error.name === "InvalidStateError" || error.name === "AbortError";
}
