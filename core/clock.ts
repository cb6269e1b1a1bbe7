/**
 * Time, as the lease engine reads it.
 *
 * @module
 */

/** Readings of both clocks at one moment. */
export interface Instant {
  /** Monotonic time in ms. It stands still while the machine sleeps. */
  readonly nowMs: number;
  /** Wall time in ms. It can be set, but goes on while the machine sleeps. */
  readonly wallMs: number;
}

/** The clock and the timers of the lease engine. Tests use a fake one. */
export interface Clock {
  /** Monotonic time in ms. */
  now(): number;
  /** Wall time in ms since the epoch. */
  wall(): number;
  /** Calls back once after `delayMs`; the returned function cancels that. */
  schedule(callback: () => void, delayMs: number): Cancel;
}

/** Cancels a timer. */
export interface Cancel {
  (): void;
  /** Sets whether the timer keeps the process alive (it does at first), where the runtime allows it. */
  hold?(isHeld: boolean): void;
}

/** Longest delay in ms that a timer of the runtime accepts. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** The clock of this process. */
export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  schedule(callback, delayMs) {
    const timer = setTimeout(callback, Math.min(Math.max(0, Math.ceil(delayMs)), MAX_DELAY_MS));
    // An object in Deno and Node, a number in browsers.
    const { ref, unref } = timer as { ref?: () => void; unref?: () => void };
    return Object.assign(() => clearTimeout(timer), {
      hold: (isHeld: boolean) => (isHeld ? ref : unref)?.call(timer),
    });
  },
};

/** Reads both clocks at once. */
export function instant(clock: Clock): Instant {
  return { nowMs: clock.now(), wallMs: clock.wall() };
}

/**
 * The allowance for clocks that run at different speeds, subtracted from every lease: 1 % of the TTL
 * and 2 ms, as in the Redlock description.
 *
 * @see {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/}
 */
export function driftMs(ttlMs: number): number {
  return ttlMs === Infinity ? 0 : ttlMs * 0.01 + 2;
}

/**
 * The moment, in monotonic ms, until which a lease is valid. It counts from when the request was
 * *sent*, because the server may have started to count right then.
 *
 * @param sentMs When the request was sent, in monotonic ms.
 * @param ttlMs The requested TTL.
 * @param validMs What remains on the server, as its answer says.
 */
export function deadlineMs(sentMs: number, ttlMs: number, validMs: number): number {
  const grantedMs = Math.min(ttlMs, validMs);
  return sentMs + grantedMs - driftMs(grantedMs);
}

/**
 * Whether the process may have been suspended since `since`: wall time has advanced more than
 * monotonic time, by more than the drift. An answer from before then proves nothing now.
 */
export function wasSuspended(clock: Clock, since: Instant, ttlMs: number): boolean {
  if (ttlMs === Infinity) return false;
  return clock.wall() - since.wallMs - (clock.now() - since.nowMs) > driftMs(ttlMs);
}

/** Waits `delayMs`, or until `signal` aborts, whichever comes first. Never rejects. */
export function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.schedule(end, delayMs);
    signal?.addEventListener("abort", end);
  });
}

/** Waits for `promise`, but no longer than `timeoutMs`; returns whether it settled. Never rejects. */
export function settledWithin(
  clock: Clock,
  promise: Promise<unknown>,
  timeoutMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.schedule(() => resolve(false), timeoutMs);
    const settled = () => {
      cancel();
      resolve(true);
    };
    promise.then(settled, settled);
  });
}

/** The result of {@linkcode within} when the time is over. */
export const TIMED_OUT: unique symbol = Symbol("timed out");

/**
 * The value of `promise`, or {@linkcode TIMED_OUT} if it does not settle within `timeoutMs`. Rejects as
 * `promise` does; a rejection that comes too late is ignored.
 */
export function within<T>(
  clock: Clock,
  promise: PromiseLike<T>,
  timeoutMs: number,
): Promise<T | typeof TIMED_OUT> {
  return new Promise((resolve, reject) => {
    const cancel = clock.schedule(() => resolve(TIMED_OUT), timeoutMs);
    promise.then((value) => {
      cancel();
      resolve(value);
    }, (error) => {
      cancel();
      reject(error);
    });
  });
}
