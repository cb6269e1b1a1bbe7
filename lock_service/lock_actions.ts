/**
 * The actions of the lock service: each acquires, renews, releases or queries one lock.
 *
 * @module
 */
import { pause, SYSTEM_CLOCK, TIMED_OUT, within } from "../core/clock.ts";
import type { AttachableAcquireOptions, AttachableLock, Lease } from "../core/distributed_lock.ts";
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
  /** Aborts when the server is about to close. */
  readonly closing: AbortSignal;
}

/** The body of an answer with status 200. All other answers are errors. */
type Answer = Readonly<Record<string, unknown>>;

/** Leases of the service: only their clients renew them, and they outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
/** How often an action is tried while other servers take over the same lease at the same time. */
const MAX_TRIES = 10;
/**
 * The pause between two tries, in ms: it grows, and is random so that the servers get out of step.
 */
const BACK_OFF_MS = 5;
/** How long in ms Redis may take to answer; a request that is still under way ends with the lease. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Why an action gives up after all tries. */
const CONTESTED = "The lease was taken over by other servers again and again";
/** Why an action gives up without an answer. */
const SILENT = "Redis does not answer in time";
/** After how many ms to retry if the holder's TTL is not known. */
const UNKNOWN_TTL_MS = 1_000;

/** The action of each method. */
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
  return await untilAnswered(async () => {
    if (gone.aborted) throw unknownOutcome(); // nobody would learn of a lease
    // Without the client's signal: a repeated request that is cut off must not release the lease that the
    // first request got.
    const lease = await lock.tryAcquire(key, options) ??
      (waitMs === 0 ? null : await waitFor(lock, key, options, limit));
    if (lease === null) throw busy(await holderRemainingMs(lock, key));
    // This process may remember the lease: only the service knows whether it is held.
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function renew(parts: ActionParts): Promise<Answer> {
  const { key, ownerId } = await ownerOf(parts, "renew");
  const { ttlMs } = readBody(parts, ["ttlMs"]);
  return await untilAnswered(async () => {
    const lease = await parts.lock.attach(key, ownerId, { ...LEASE, ttlMs });
    if (lease === null) throw notHeld();
    return await isRenewed(lease, ttlMs) ? described(lease) : null;
  });
}

async function release(parts: ActionParts): Promise<Answer> {
  const { key, ownerId } = await ownerOf(parts, "release");
  readBody(parts, []);
  return await untilAnswered(async () => {
    const lease = await parts.lock.attach(key, ownerId, LEASE);
    if (lease === null) throw notHeld();
    return await answered(lease.release()) ? { key, released: true } : null;
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

// deno-lint-ignore require-await -- as the other actions
async function rejectMethod({ request }: ActionParts): Promise<Answer> {
  throw notAllowed(request);
}

/** Tries until there is an answer; `null` means that another server took the lease over. */
async function untilAnswered(tryOnce: () => Promise<Answer | null>): Promise<Answer> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const answer = await tryOnce();
    if (answer !== null) return answer;
    await pause(SYSTEM_CLOCK, tries * BACK_OFF_MS * Math.random());
  }
  throw unknownOutcome(CONTESTED);
}

/** Waits for a lock that another owner holds. */
async function waitFor(
  lock: AttachableLock,
  key: string,
  options: AttachableAcquireOptions,
  limit: WaitLimit,
): Promise<Lease> {
  try {
    return await lock.acquire(key, { ...options, signal: limit.signal });
  } catch (error) {
    if (!limit.hasCaused(error)) throw error;
  }
  if (!limit.hasTimedOut) throw unknownOutcome(); // the server closes, or the client is gone
  const remainingMs = await holderRemainingMs(lock, key);
  throw remainingMs === null ? unknownOutcome(SILENT) : busy(remainingMs);
}

async function isRenewed(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await answered(lease.renew(ttlMs));
    return lease.remainingMs >= 1;
  } catch (error) {
    if (error instanceof LeaseLostError) return false;
    if (error instanceof LockError && error.code === "ERR_LEASE_RELEASED") return false;
    throw error;
  }
}

/** Waits for an answer of the service, but not as long as a lease may last. */
async function answered<T>(answer: Promise<T>): Promise<T> {
  const result = await within(SYSTEM_CLOCK, answer, ANSWER_TIMEOUT_MS);
  if (result === TIMED_OUT) throw unknownOutcome(SILENT);
  return result;
}

/** The token is text: numbers of other languages may be too small for it. */
function described({ name, fencingToken, remainingMs }: Lease): Answer {
  return {
    key: name,
    fencingToken: String(fencingToken),
    remainingMs: Math.floor(remainingMs),
  };
}

/** Another owner holds the lock: for how long, if that is known. */
function busy(holderMs: number | undefined | null): RequestError {
  const remainingMs = typeof holderMs === "number" ? Math.floor(holderMs) : undefined;
  return new RequestError("busy", {
    status: 409,
    title: "Busy",
    detail: "Somebody else holds the lock",
    retryAfterMs: remainingMs ?? UNKNOWN_TTL_MS,
  }, { members: { remainingMs } });
}

/** Another owner may hold the lock, or nobody. */
function notHeld(): RequestError {
  return new RequestError("not-held", {
    status: 404,
    title: "Not held",
    detail: "The lock is not held under this id",
  });
}
