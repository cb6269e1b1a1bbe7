/**
 * The actions of the lock service. Each tries until Redis has answered, for another server may
 * take over the same lease meanwhile. Requests are read and checked in `lock_request.ts`.
 *
 * @module
 */
import type { Lease, WaitInfo } from "../core/contract/distributed_lock.ts";
import { LeaseLostError, LockError, type LockErrorCode } from "../core/contract/errors.ts";
import { pause, SYSTEM_CLOCK, TIMED_OUT, within } from "../core/time/clock.ts";
import { onClose } from "../http/shared/server.ts";
import {
  keyOf,
  type LockRequest,
  notAllowed,
  type Owner,
  ownerOf,
  readBody,
  type Terms,
} from "./lock_request.ts";
import type { Puts } from "./puts.ts";
import { busy, notHeld, type RequestError, unknownOutcome } from "./request_error.ts";

/** Leases of the service are renewed only by their clients, and outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
/**
 * The TTL in ms for which a DELETE takes over the lease. That may prolong the lease, and the release may not
 * arrive, so it is short; but a grant that ends before its answer arrives is no lease.
 */
const RELEASE_TTL_MS = 1_000;
/** How often an action is tried while other requests keep taking over the same lease. */
const MAX_TRIES = 10;
/** How often it is tried, besides, while other requests of the same owner ask at this server. */
const MAX_REFUSALS = 100;
/** The longest first pause between tries, in ms. Later ones grow, and all are random: requests stop colliding. */
const BACK_OFF_MS = 5;
/** How long in ms a request waits for an answer of Redis. The call to Redis goes on, at most for the lease. */
const ANSWER_TIMEOUT_MS = 5_000;
const CONTESTED = `another server took over the lease in each of ${MAX_TRIES} tries`;
const SILENT = "Redis has not answered in time: is it running and reachable?";

/** Each resolves with the body of a response with status 200. Every other response is thrown as an error. */
export const actions = {
  PUT: acquire,
  PATCH: renew,
  DELETE: release,
  GET: query,
  POST: ({ request }: LockRequest): Promise<object> => Promise.reject(notAllowed(request)),
} as const;

async function acquire(lockRequest: LockRequest, puts: Puts): Promise<object> {
  const owner = await ownerOf(lockRequest, "acquire");
  const terms = readBody(lockRequest, ["ttlMs", "waitMs"]);
  const gone = new AbortController();
  onClose(lockRequest.response, () => gone.abort());
  const start = (ended: AbortSignal) => acquireUntil(lockRequest, owner, terms, ended);
  return await puts.join(owner, terms, gone.signal, start);
}

/** Acquires the lock for all clients of a PUT, until the signal says that nobody needs it any more. */
async function acquireUntil(
  { settings: { lock, retryAfterMs } }: LockRequest,
  { key, ownerId }: Owner,
  { ttlMs, waitMs }: Terms,
  ended: AbortSignal,
): Promise<object> {
  let remainingMs: number | undefined;
  const onWait = (info: WaitInfo) => void (remainingMs = info.remainingMs);
  const options = { ...LEASE, ownerId, ttlMs, onWait };
  const endMs = performance.now() + waitMs;
  return await untilDone(key, async () => {
    if (ended.aborted) throw unknownOutcome(); // nobody would receive the lease
    let lease = await lock.tryAcquire(key, waitMs === 0 ? { ...options, waitMs } : options);
    const leftMs = Math.ceil(endMs - performance.now());
    if (lease === null && leftMs > 0) {
      lease = await lock.tryAcquire(key, { ...options, waitMs: leftMs, signal: ended })
        .catch((error) => {
          throw ended.aborted ? unknownOutcome() : error;
        });
      // The owner id may have been granted the lock as its wait ended: only a last try tells.
      lease ??= await answered(key, lock.tryAcquire(key, { ...options, waitMs: 0 }));
    }
    if (lease === null) throw busy(remainingMs, retryAfterMs);
    // A request with the same id at another server may have taken it over: a renewal tells.
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function renew(lockRequest: LockRequest): Promise<object> {
  const { key, ownerId } = await ownerOf(lockRequest, "renew");
  const { ttlMs } = readBody(lockRequest, ["ttlMs"]);
  return await untilDone(key, async () => {
    const lease = await lockRequest.settings.lock.attach(key, ownerId, { ...LEASE, ttlMs });
    if (lease === null) throw notHeld();
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function release(lockRequest: LockRequest): Promise<object> {
  const { key, ownerId } = await ownerOf(lockRequest, "release");
  readBody(lockRequest, []);
  const options = { ...LEASE, ttlMs: RELEASE_TTL_MS };
  return await untilDone(key, async () => {
    const lease = await lockRequest.settings.lock.attach(key, ownerId, options);
    if (lease === null) throw notHeld();
    return await answered(key, lease.release()) ? { key, released: true } : null;
  });
}

async function query(lockRequest: LockRequest): Promise<object> {
  const key = await keyOf(lockRequest);
  const { holders: [holder], waiterCount } = await lockRequest.settings.lock.query(key);
  const fencingToken = holder?.fencingToken?.toString();
  const remainingMs = holder?.remainingMs === undefined
    ? undefined
    : Math.floor(holder.remainingMs);
  return { key, held: holder !== undefined, fencingToken, remainingMs, waiterCount };
}

/** Describes a lease. The token is a string, since a 64-bit integer does not fit a JSON number safely. */
function described({ name, fencingToken, remainingMs }: Lease): object {
  return {
    key: name,
    fencingToken: String(fencingToken),
    remainingMs: Math.floor(remainingMs),
  };
}

/**
 * Tries until there is a result. A try returns `null` if another request has taken over the lease. It throws a
 * `LockError` if another request of the same owner asks at this server just now, or has ended this one; or
 * if Redis, after a reconnect, takes this call for one that has left.
 */
async function untilDone(
  key: string,
  tryOnce: () => Promise<object | null>,
): Promise<object> {
  let [tries, refusals] = [0, 0];
  while (tries < MAX_TRIES) {
    try {
      const result = await tryOnce();
      if (result !== null) return result;
      tries++;
    } catch (error) {
      if (!isLockError(error, "ERR_LOCK") || refusals === MAX_REFUSALS) throw error;
      refusals++;
    }
    const backOff = Math.min(tries + refusals, MAX_TRIES) * Math.random();
    await pause(SYSTEM_CLOCK, backOff * BACK_OFF_MS);
  }
  throw givenUp(key, CONTESTED);
}

/** Renews the lease on Redis; false if it is lost, or another request has released it meanwhile. */
async function isRenewed(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await answered(lease.name, lease.renew(ttlMs));
    return lease.remainingMs >= 1;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    if (isLockError(error, "ERR_LEASE_RELEASED")) return false;
    throw error;
  }
}

function isLockError(error: unknown, code: LockErrorCode): boolean {
  return error instanceof LockError && error.code === code;
}

/** Waits for an answer from Redis, but not for as long as a lease may last. */
async function answered<T>(key: string, answer: Promise<T>): Promise<T> {
  const result = await within(SYSTEM_CLOCK, answer, ANSWER_TIMEOUT_MS);
  if (result === TIMED_OUT) throw givenUp(key, SILENT);
  return result;
}

/** It is not known what the request has done; the reason is for the logs. */
function givenUp(key: string, reason: string): RequestError {
  return unknownOutcome(`Gave up a request for the lock ${JSON.stringify(key)}: ${reason}`);
}
