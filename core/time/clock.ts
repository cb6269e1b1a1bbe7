/**
 * Clocks, timers, waits that time or a signal ends, and the arithmetic of deadlines. Knows no lease and no server.
 *
 * @module
 */

import { unwatchAbort, watchAbort } from "./abort_watch.ts";

/** Both clocks, read at the same moment. */
export interface Instant {
  /** Monotonic time in ms. It stands still while the machine sleeps. */
  readonly nowMs: number;
  /** Wall time in ms since the epoch. It can be set, but goes on while the machine sleeps. */
  readonly wallMs: number;
}

/** The source of time and timers. Tests pass in a fake one. */
export interface Clock {
  /** Monotonic time in ms. */
  now(): number;
  /** Wall time in ms since the epoch. */
  wall(): number;
  schedule(callback: () => void, delayMs: number): Cancel;
}

export interface Cancel {
  (): void;
  /** Lets the timer keep the process alive, as a new one does. Left out where that cannot be changed. */
  readonly ref?: (() => unknown) | undefined;
  /** The timer no longer keeps the process alive. */
  readonly unref?: (() => unknown) | undefined;
}

/** Longest delay in ms that a timer of the runtime accepts. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  schedule(callback, delayMs) {
    const timer = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), MAX_DELAY_MS));
    // An object in Deno and Node, a number in browsers.
    const { ref, unref } = timer as Pick<Cancel, "ref" | "unref">;
    const cancel = () => clearTimeout(timer);
    return Object.assign(cancel, { ref: ref?.bind(timer), unref: unref?.bind(timer) });
  },
};

/** The system clock, with timers that do not keep the process alive. */
export const BACKGROUND_CLOCK: Clock = {
  ...SYSTEM_CLOCK,
  schedule(callback, delayMs) {
    const cancel = SYSTEM_CLOCK.schedule(callback, delayMs);
    cancel.unref?.();
    return cancel;
  },
};

export function instant(clock: Clock): Instant {
  return { nowMs: clock.now(), wallMs: clock.wall() };
}

/**
 * The allowance, in ms, for clocks that run at different speeds, as in the description of Redlock.
 *
 * @see {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/}
 */
function driftMs(ttlMs: number): number {
  return ttlMs === Infinity ? 0 : ttlMs * 0.01 + 2;
}

/**
 * The moment, in monotonic ms, until which a lease is valid (invariant 1). The time counts from when the request was
 * *sent*, because the TTL on the server may have begun right then.
 *
 * @param validMs How long, in ms, the lease has left on the server, as the answer says.
 */
export function deadlineMs(sentMs: number, ttlMs: number, validMs: number): number {
  const grantedMs = Math.min(ttlMs, validMs);
  return sentMs + grantedMs - driftMs(grantedMs);
}

/** The TTL in ms of a lease that is valid for `validMs`, from when its request is sent. */
export function ttlLasting(validMs: number): number {
  return Math.ceil((validMs + 2) / 0.99);
}

/**
 * Whether the process may have been suspended since `since`: wall time has advanced further than monotonic time, by
 * more than the drift of `ttlMs` (invariant 7). A wall clock that was set forward looks the same.
 */
export function wasSuspended(clock: Clock, since: Instant, ttlMs: number): boolean {
  if (ttlMs === Infinity) return false;
  return clock.wall() - since.wallMs - (clock.now() - since.nowMs) > driftMs(ttlMs);
}

/**
 * Time in ms since `since`, by the clock that has advanced further: a suspension stops one, and the other can be set.
 */
export function elapsedMs(clock: Clock, since: Instant): number {
  return Math.max(clock.now() - since.nowMs, clock.wall() - since.wallMs);
}

/** Waits `delayMs`, or until `signal` aborts, whichever comes first. Never rejects. */
export function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      cancel();
      if (signal !== undefined) unwatchAbort(signal, listener);
      resolve();
    };
    const listener = { onAborted: end };
    const cancel = clock.schedule(end, delayMs);
    if (signal !== undefined) watchAbort(signal, listener);
  });
}

export const TIMED_OUT: unique symbol = Symbol("timed out");

/** Settles as `promise` does, or resolves with `TIMED_OUT` after `timeoutMs`. A later rejection is ignored. */
export function within<T>(
  clock: Clock,
  promise: PromiseLike<T>,
  timeoutMs: number,
): Promise<T | typeof TIMED_OUT> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<T | typeof TIMED_OUT>();
  const cancel = clock.schedule(() => resolve(TIMED_OUT), timeoutMs);
  promise.then((value) => {
    cancel();
    resolve(value);
  }, (error) => {
    cancel();
    reject(error);
  });
  return ended;
}

/**
 * The same for the answer of a service, within `steps` times `stepMs`. While the event loop is blocked, requests
 * are not sent and answers are not read: that uses up one step at most, for it is not the service's fault.
 */
export async function withinSteps<T>(
  clock: Clock,
  answer: PromiseLike<T>,
  stepMs: number,
  steps: number,
): Promise<T | typeof TIMED_OUT> {
  for (let i = 0; i < steps; i++) {
    const result = await within(clock, answer, stepMs);
    if (result !== TIMED_OUT) return result;
  }
  return TIMED_OUT;
}

/** Waits until `promise` settles, at most `timeoutMs`. Returns whether it did. */
export async function settledWithin(
  clock: Clock,
  promise: Promise<unknown>,
  timeoutMs: number,
): Promise<boolean> {
  return await within(clock, Promise.allSettled([promise]), timeoutMs) !== TIMED_OUT;
}

/** Settles as `promise` does, or, if `signal` aborts first, rejects with its reason. A later rejection is ignored. */
export async function abortable<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    promise.then(undefined, () => {}); // otherwise its rejection would be unhandled
    throw signal.reason;
  }
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const listener = { onAborted: () => reject(signal.reason) };
  watchAbort(signal, listener);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    unwatchAbort(signal, listener);
  }
}
