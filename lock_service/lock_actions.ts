/**
 * The actions of the lock service: each acquires, renews, releases or queries one lock. Requests are
 * read and checked in `lock_request.ts`.
 *
 * @module
 */
import { pause, SYSTEM_CLOCK, TIMED_OUT, within } from "../core/clock.ts";
import type {
  AttachableAcquireOptions,
  AttachableLock,
  Lease,
  WaitInfo,
} from "../core/distributed_lock.ts";
import { LeaseLostError, LockError } from "../core/errors.ts";
import { holderRemainingMs } from "../http/internal/acquire.ts";
import { type NodeResponse, ResponseWatch } from "../http/internal/response_watch.ts";
import { WaitLimit } from "../http/internal/wait_limit.ts";
import { keyOf, type LockRequest, notAllowed, ownerOf, readBody } from "./lock_request.ts";
import { RequestError, unknownOutcome } from "./request_error.ts";

/** The input of an action. */
export interface ActionParts extends LockRequest {
  readonly lock: AttachableLock;
  readonly response: NodeResponse;
  /** Aborts when the server starts to close. */
  readonly closing: AbortSignal;
}

/** The body of an answer with status 200. Every other answer is thrown as an error. */
type Answer = Readonly<Record<string, unknown>>;

/** Leases of the service are renewed only by their clients, and outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
/** How often an action is tried while other servers keep taking over the same lease. */
const MAX_TRIES = 10;
/**
 * The pause between two tries in ms is this value times the number of tries, times a random number from
 * 0 to 1, so that the servers do not keep colliding.
 */
const BACK_OFF_MS = 5;
/** How long in ms an answer waits for Redis. The request to Redis goes on, at most for the lease. */
const ANSWER_TIMEOUT_MS = 5_000;
/** The reason, for the logs, when all tries have failed. */
const CONTESTED = `another server took over the lease in each of ${MAX_TRIES} tries`;
/** The reason, for the logs, when Redis has not answered. */
const SILENT = "Redis has not answered in time: is it running and reachable?";
/** How long in ms to wait before a retry when it is not known how long the holder's lease lasts. */
const UNKNOWN_TTL_MS = 1_000;

/** The action of each HTTP method. */
export const actions = {
  PUT: acquire,
  PATCH: renew,
  DELETE: release,
  GET: query,
  POST: rejectMethod,
} as const;

async function acquire(parts: ActionParts): Promise<Answer> {
  const { lock, closing } = parts;
  const { key, ownerId } = await ownerOf(parts, "acquire");
  const { ttlMs, waitMs } = readBody(parts, ["ttlMs", "waitMs"]);
  const { gone } = new ResponseWatch(parts.response);
  using limit = new WaitLimit(waitMs, [gone, closing]);
  const options = { ...LEASE, ownerId, ttlMs };
  return await untilAnswered(key, async () => {
    if (gone.aborted) throw unknownOutcome(); // nobody would receive the lease
    // The client's signal is not passed: if a repeated PUT is cut off, that must not release the lease
    // that the first PUT has acquired.
    let remainingMs: number | undefined;
    const onWait = (info: WaitInfo) => void (remainingMs = info.remainingMs);
    const lease = await lock.tryAcquire(key, { ...options, onWait }) ??
      (waitMs === 0 ? null : await waitFor(parts, key, options, limit));
    if (lease === null) throw busy(remainingMs, parts.limits);
    // The lease may come from this process's memory: a renewal asks Redis whether it is still held.
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function renew(parts: ActionParts): Promise<Answer> {
  const { key, ownerId } = await ownerOf(parts, "renew");
  const { ttlMs } = readBody(parts, ["ttlMs"]);
  return await untilAnswered(key, async () => {
    const lease = await parts.lock.attach(key, ownerId, { ...LEASE, ttlMs });
    if (lease === null) throw notHeld();
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function release(parts: ActionParts): Promise<Answer> {
  const { key, ownerId } = await ownerOf(parts, "release");
  readBody(parts, []);
  return await untilAnswered(key, async () => {
    const lease = await parts.lock.attach(key, ownerId, LEASE);
    if (lease === null) throw notHeld();
    return await answered(key, lease.release()) ? { key, released: true } : null;
  });
}

async function query(parts: ActionParts): Promise<Answer> {
  const key = await keyOf(parts);
  const { holders: [holder], waiterCount } = await parts.lock.query(key);
  const fencingToken = holder?.fencingToken === undefined ? undefined : String(holder.fencingToken);
  const remainingMs = holder?.remainingMs === undefined
    ? undefined
    : Math.floor(holder.remainingMs);
  return { key, held: holder !== undefined, fencingToken, remainingMs, waiterCount };
}

// deno-lint-ignore require-await -- async like the other actions
async function rejectMethod({ request }: ActionParts): Promise<Answer> {
  throw notAllowed(request);
}

/** Tries until there is an answer. A try returns `null` if another server has taken over the lease. */
async function untilAnswered(
  key: string,
  tryOnce: () => Promise<Answer | null>,
): Promise<Answer> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const answer = await tryOnce();
    if (answer !== null) return answer;
    await pause(SYSTEM_CLOCK, tries * BACK_OFF_MS * Math.random());
  }
  throw givenUp(key, CONTESTED);
}

/** Waits for a lock that another owner holds. */
async function waitFor(
  { lock, limits }: ActionParts,
  key: string,
  options: AttachableAcquireOptions,
  limit: WaitLimit,
): Promise<Lease> {
  try {
    return await lock.acquire(key, { ...options, signal: limit.signal });
  } catch (error) {
    if (!limit.hasCaused(error)) throw error;
  }
  if (!limit.hasTimedOut) throw unknownOutcome(); // the server closes, or the client has disconnected
  const remainingMs = await holderRemainingMs(lock, key);
  throw remainingMs === null ? givenUp(key, SILENT) : busy(remainingMs, limits);
}

/** Renews the lease on Redis; false if it is lost, or another request has released it meanwhile. */
async function isRenewed(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await answered(lease.name, lease.renew(ttlMs));
    return lease.remainingMs >= 1;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    if (error instanceof LockError && error.code === "ERR_LEASE_RELEASED") return false;
    throw error;
  }
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

/** Describes a lease. The token is a string, since a 64-bit integer does not fit a JSON number safely. */
function described({ name, fencingToken, remainingMs }: Lease): Answer {
  return {
    key: name,
    fencingToken: String(fencingToken),
    remainingMs: Math.floor(remainingMs),
  };
}

/**
 * Another owner holds the lock.
 *
 * @param holderMs How long in ms its lease still lasts, if that is known.
 */
function busy(
  holderMs: number | undefined | null,
  { retryAfterMs }: ActionParts["limits"],
): RequestError {
  const remainingMs = typeof holderMs === "number" ? Math.floor(holderMs) : undefined;
  return new RequestError("busy", {
    status: 409,
    title: "Busy",
    detail: "Somebody else holds the lock: try again later, or ask with a longer 'waitMs'",
    retryAfterMs: retryAfterMs ?? remainingMs ?? UNKNOWN_TTL_MS,
  }, { members: { remainingMs } });
}

/** The lock is not held by this owner: it is free, or another owner holds it. */
function notHeld(): RequestError {
  return new RequestError("not-held", {
    status: 404,
    title: "Not held",
    detail: "The lock is not held under this id: the lease has ended, or there never was one",
  });
}
