/**
 * The life of one request under a lock, from top to bottom, as all frameworks share it:
 *
 * 1. `keyOf()` determines the key: the name of the lock, or that the request needs none, or why it is refused.
 * 2. `acquireForRequest()` acquires the lock, and waits for it as long as the options allow. If somebody else
 *    holds it until then, the client gets 409 (`busyStatus`); in an outage 503, or the handler runs without a
 *    lease; for a name that no lock can have 400. A client that disconnects leaves the queue; logs show 499.
 * 3. `runUnderLease()` runs the handler, and waits for its end or the loss of the lease. Express, Fastify and NestJS
 *    call the handler themselves: `express.ts`, `fastify/reply.ts` and `nest_call.ts` notice its end, and `lossOf()`
 *    is asked, too.
 * 4. After a loss the client gets 503, whatever the handler does. A response that has begun is broken off,
 *    so that no client takes a part for the whole.
 * 5. When the handler has ended *and* the response is complete, but for its last bytes, `releaseInTime()` releases
 *    the lock, once. If the handler ended first, the last bytes wait for that, 1 s at most: a client that has them
 *    all finds the lock free, and if only the release finds the loss, gets 503 or a response that is broken off.
 *
 * The end of a response is noticed in `fetch_response.ts` (fetch, Hono) and `node_response.ts` (Express,
 * Koa, Fastify, NestJS). On Lambda, `lambda/invocation.ts` releases the lock in the time that is left, and
 * answers 503 when it is over. `node_shield.ts` makes a handler harmless that writes after its loss was answered.
 *
 * @module
 */
import type { DistributedLock, Lease, WaitInfo } from "../../core/contract/distributed_lock.ts";
import { LeaseLostError, LockError, LockSetupError } from "../../core/contract/errors.ts";
import { checkName, describe } from "../../core/contract/options.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import { SYSTEM_CLOCK, TIMED_OUT, within } from "../../core/time/clock.ts";
import { lossOf, stemsFrom } from "../../core/contract/request.ts";
import {
  badKey,
  busy,
  isDisposed,
  isUnavailable,
  type Problem,
  refusalOf,
  unavailable,
} from "../shared/problem.ts";
import { type HoldSettings, type LockKey, NO_LOCK, report } from "./options.ts";

/** How long in ms the response to a busy lock waits to learn how long the holder's lease lasts. */
const QUERY_TIMEOUT_MS = 500;
/** How long in ms a response waits for the release. After that, the release goes on without it. */
const RELEASE_TIMEOUT_MS = 1_000;

/** The request is answered with a problem instead of its handler's response. */
export interface Failed {
  readonly state: "failed";
  readonly problem: Problem;
  readonly cause?: unknown;
}

/** A lease that a request got, and the lock, or the factory of locks, that it is from. */
export interface RequestLease {
  readonly origin: object;
  readonly lease: Lease;
}

const GONE = { state: "gone" } as const;

/**
 * @throws {TypeError} If the key is not a string: a bug of the program.
 * @throws Whatever the function of the user throws, unless that is meant for the client.
 */
export async function keyOf<Args extends unknown[]>(
  key: LockKey<Args>,
  ...args: Args
): Promise<string | null | Failed> {
  if (typeof key === "string") return key;
  let made: unknown;
  try {
    made = await key(...args);
  } catch (cause) {
    const problem = refusalOf(cause);
    if (problem === null) throw cause;
    return { state: "failed", problem, cause };
  }
  if (typeof made === "string") return made;
  if (made === NO_LOCK) return null;
  throw new TypeError(
    `Cannot lock the request: its key must be a string, but it is ${describe(made)}; return ` +
      "NO_LOCK to run without a lock, or throw an error with 'statusCode: 400' if the request lacks " +
      "something",
  );
}

const requests = new WeakMap<object, RequestLease[]>();

/** Returns the leases of a request, which is known by an object that all its locks see. */
export function leasesOf(request: object): RequestLease[] {
  let leases = requests.get(request);
  if (leases === undefined) requests.set(request, leases = []);
  return leases;
}

/**
 * A lease that is granted when nobody awaits a response any more is released.
 *
 * @returns `"unlocked"` if the request runs without a lease: the service is down, and it may proceed. `"gone"` if
 * nobody awaits a response any more.
 * @throws {LockSetupError} If the lock cannot work as it is set up, or the request holds it already.
 * This is not an outage: the request never proceeds without a lease.
 */
export async function acquireForRequest(
  lock: DistributedLock,
  key: string | Failed,
  settings: HoldSettings,
  { leases, abandoned, origin = lock }: {
    /** The leases that the request got from all its locks; some may be over. */
    readonly leases: RequestLease[];
    /** Aborts when nobody awaits a response any more. */
    readonly abandoned?: AbortSignal | undefined;
    /** The factory that made the lock: a key must not be locked twice by any of its locks. */
    readonly origin?: object;
  },
): Promise<
  | { readonly state: "held"; readonly lease: Lease }
  | { readonly state: "unlocked" }
  | Failed
  | typeof GONE
> {
  if (abandoned?.aborted) return GONE; // also if the key is refused: an answer has been given
  if (typeof key !== "string") return key;
  try {
    checkName(key); // a bad name is the client's fault: it may come from the request
  } catch (cause) {
    return { state: "failed", problem: badKey(), cause };
  }
  for (const { origin: other, lease } of leases) {
    if (other === origin && lease.name === key && lease.remainingMs > 0) throw lockedTwice(key);
  }
  let waitInfo: WaitInfo | undefined;
  const { waitMs, maxHoldMs, autoRenew = true } = settings;
  try {
    const lease = await lock.tryAcquire(key, {
      ...{ maxHoldMs, autoRenew, waitMs },
      onWait: (info) => void (waitInfo = info),
      ...abandoned && { signal: abandoned },
    });
    if (lease === null) {
      const busy = await busyResult(lock, key, settings, waitInfo);
      return abandoned?.aborted ? GONE : busy;
    }
    // Lost just after the grant; or unproven, if the lock is a wrapper that awaits something after it.
    if (lease.remainingMs === 0) await lossOf(lease);
    if (abandoned?.aborted) {
      await releaseInTime(lease, settings);
      return GONE;
    }
    leases.push({ origin, lease });
    settings.holdTimes.granted(lease, performance.now());
    return { state: "held", lease };
  } catch (error) {
    if (abandoned?.aborted) return GONE;
    // A strategy may allow fewer names than `checkName()`. The options were checked at the start.
    if (error instanceof RangeError) return { state: "failed", problem: badKey(), cause: error };
    if (!isUnavailable(error)) throw error;
    report(settings, error);
    // A disposed lock is not an outage: its server is about to stop, and nothing may run without the lock.
    if (settings.onUnavailable === "proceed" && !isDisposed(error)) return { state: "unlocked" };
    return { state: "failed", problem: unavailable(), cause: error };
  }
}

/** The client should come back after as long as requests usually hold the lock, else when the lease ends. */
async function busyResult(
  lock: DistributedLock,
  key: string,
  { busyStatus, retryAfterMs, holdTimes }: HoldSettings,
  waitInfo: WaitInfo | undefined,
): Promise<Failed> {
  let leastMs = retryAfterMs ?? holdTimes.usualMs ?? waitInfo?.remainingMs;
  // Nobody knows when a session or a process will end, so the answer would not be worth its cost.
  const { endsBy } = lock.capabilities;
  if (leastMs === undefined && endsBy !== "session" && endsBy !== "process-death") {
    const answer = lock.query(key, { maxWaiters: 0 }).catch(() => null);
    const snapshot = await within(SYSTEM_CLOCK, answer, QUERY_TIMEOUT_MS);
    if (snapshot !== TIMED_OUT) leastMs = snapshot?.holders[0]?.remainingMs;
  }
  return { state: "failed", problem: busy(busyStatus, leastMs === Infinity ? undefined : leastMs) };
}

function lockedTwice(key: string): LockSetupError {
  return new LockSetupError(
    `Cannot acquire the lock ${JSON.stringify(key)} twice in one request: the request would wait ` +
      "for itself; acquire it once, in the outer handler or middleware, and retry only inside of the lock",
    key,
  );
}

/**
 * A handler that ignores a loss runs on, but no response waits for it. What it returns then is discarded, and what it
 * throws is reported, unless that is the loss itself, or an error with the loss as its cause. It does not start under
 * a lost lease.
 */
export async function runUnderLease<T>(
  lease: Lease,
  settings: HoldSettings,
  handler: () => T | Promise<T>,
): Promise<
  | { readonly state: "done"; readonly value: T }
  | { readonly state: "failed"; readonly error: unknown }
  /**
   * The lease is lost. The handler may still run: it cannot be stopped. After a loss by disposal the lock is
   * kept for it, so it must not be released before `ended` resolves.
   */
  | { readonly state: "lost"; readonly error: unknown; readonly ended: Promise<void> }
> {
  const { signal } = lease;
  if (signal.aborted) return { state: "lost", error: signal.reason, ended: Promise.resolve() };
  const { promise: lost, resolve: lose } = Promise.withResolvers<null>();
  const onAbort = () => lose(null);
  const running = promiseTry(handler).then(
    (value) => ({ state: "done" as const, value }),
    (error: unknown) => ({ state: "failed" as const, error }),
  );
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) lose(null); // the handler's first step has lost it
  const result = await Promise.race([running, lost]);
  signal.removeEventListener("abort", onAbort);
  const loss = result === null ? signal.reason : await lossOf(lease);
  if (result !== null && loss === null) return result;
  const ended = running.then((late) => {
    if (late.state === "done") discard(late.value, settings);
    else if (!stemsFrom(late.error, signal.reason)) report(settings, late.error);
  }).catch(() => {}); // or the lock would stay held
  return { state: "lost", error: loss, ended };
}

/** Ends the stream of an unsent answer: it may have a file open. NestJS wraps some. Never throws, but reports. */
export function discard(answer: unknown, settings: HoldSettings): void {
  const body = answer instanceof Response ? answer.body : answer;
  if (body instanceof ReadableStream) {
    if (!body.locked) body.cancel().catch(() => {});
    return;
  }
  try {
    const { getStream } = Object(body) as { getStream?: () => unknown };
    const stream = Object(getStream?.call(body) ?? body) as {
      pipe?: unknown;
      destroy?: () => void;
    };
    if (typeof stream.pipe === "function") stream.destroy?.();
  } catch (error) {
    report(settings, error);
  }
}

/**
 * Releases the lock, and remembers how long it was held. Never rejects: a refusal, which leaves it held, is reported.
 *
 * @returns The loss that only the release has found, and has reported; `null` if there is none.
 */
export async function releaseLease(
  lease: Lease,
  settings: HoldSettings,
): Promise<LeaseLostError | null> {
  const nowMs = performance.now();
  try {
    if (await lease.release()) settings.holdTimes.released(lease, nowMs);
    else if (!lease.signal.aborted) lease.throwIfLost();
  } catch (error) {
    const isReleased = error instanceof LockError && error.code === "ERR_LEASE_RELEASED";
    if (!isReleased) report(settings, error); // else the handler has released it itself
    if (error instanceof LeaseLostError) return error;
  }
  return null;
}

/** The same, but resolves after 1 s at the latest. */
export async function releaseInTime(
  lease: Lease,
  settings: HoldSettings,
): Promise<LeaseLostError | null> {
  const loss = await within(SYSTEM_CLOCK, releaseLease(lease, settings), RELEASE_TIMEOUT_MS);
  return loss === TIMED_OUT ? null : loss;
}
