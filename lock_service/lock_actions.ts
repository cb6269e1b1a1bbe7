/**
 * The actions of the lock service: each acquires, renews, releases or queries one lock. Requests are
 * read and checked in `lock_request.ts`.
 *
 * @module
 */
import type {
  AttachableAcquireOptions,
  AttachableLock,
  Lease,
  WaitInfo,
} from "../core/contract/distributed_lock.ts";
import { type NodeResponse, ResponseWatch } from "../http/internal/response_watch.ts";
import { WaitLimit } from "../http/internal/wait_limit.ts";
import {
  keyOf,
  type LockRequest,
  notAllowed,
  type Owner,
  ownerOf,
  readBody,
} from "./lock_request.ts";
import {
  busy,
  hasDoneNothing,
  notHeld,
  type RequestError,
  unknownOutcome,
} from "./request_error.ts";
import type { Reservation, Reservations } from "./reservations.ts";
import { type Answer, answered, isRenewed, untilAnswered } from "./tries.ts";

/** The input of an action. */
export interface ActionParts extends LockRequest {
  readonly lock: AttachableLock;
  readonly reservations: Reservations;
  readonly response: NodeResponse;
  /** Aborts when the server starts to close. */
  readonly closing: AbortSignal;
}

/** Leases of the service are renewed only by their clients, and outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
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
  const owner = await ownerOf(parts, "acquire");
  const { ttlMs, waitMs } = readBody(parts, ["ttlMs", "waitMs"]);
  const { gone } = new ResponseWatch(parts.response);
  const limit = new WaitLimit(waitMs, [gone, parts.closing]);
  try {
    const options = { ...LEASE, ownerId: owner.ownerId, ttlMs };
    return await acquireWithin(parts, owner, { options, limit, waitMs, ttlMs, gone });
  } finally {
    limit[Symbol.dispose]();
  }
}

async function acquireWithin(parts: ActionParts, owner: Owner, wait: ClientWait): Promise<Answer> {
  const { options, ttlMs, waitMs, gone } = wait;
  if (gone.aborted) throw unknownOutcome();
  const place = await parts.reservations.forLease(owner, waitMs + ttlMs);
  return await underReservation(place, ttlMs, () =>
    untilAnswered(owner.key, async () => {
      if (gone.aborted) throw unknownOutcome(); // nobody would receive the lease
      // The client's signal is not passed: if a repeated PUT is cut off, that must not release the lease
      // that the first PUT has acquired.
      let remainingMs: number | undefined;
      const onWait = (info: WaitInfo) => void (remainingMs = info.remainingMs);
      const tryOnce = () => parts.lock.tryAcquire(owner.key, { ...options, onWait });
      let lease = await tryOnce();
      if (lease === null && waitMs > 0) {
        // The owner id may have been granted the lock as its wait ended: only a last try tells.
        lease = await waitInLine(parts, owner, wait) ?? await answered(owner.key, tryOnce());
      }
      if (lease === null) throw busyWith(remainingMs, parts.limits);
      // A request with the same id at another server may have taken it over: a renewal tells.
      return await isRenewed(lease, ttlMs) ? await settled(lease, place, ttlMs) : null;
    }));
}

async function renew(parts: ActionParts): Promise<Answer> {
  const owner = await ownerOf(parts, "renew");
  const { key, ownerId } = owner;
  const { ttlMs } = readBody(parts, ["ttlMs"]);
  const place = await parts.reservations.forLease(owner, ttlMs);
  return await underReservation(place, ttlMs, () =>
    untilAnswered(key, async () => {
      const lease = await parts.lock.attach(key, ownerId, { ...LEASE, ttlMs });
      if (lease === null) throw notHeld();
      return await isRenewed(lease, ttlMs) ? await settled(lease, place, ttlMs) : null;
    }));
}

async function release(parts: ActionParts): Promise<Answer> {
  const owner = await ownerOf(parts, "release");
  const { key, ownerId } = owner;
  readBody(parts, []);
  // Known before the release: a later PUT has a reservation of its own, which must stay.
  const place = await parts.reservations.ofLease(owner);
  const answer = await untilAnswered(key, async () => {
    const lease = await parts.lock.attach(key, ownerId, LEASE);
    if (lease === null) return { isHeld: false };
    return await answered(key, lease.release()) ? { key, released: true } : null;
  });
  await place.giveBack();
  if (answer.isHeld === false) throw notHeld();
  return answer;
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

/** Runs an action that acquires or renews a lease, and gives its reservation back if it gets none. */
async function underReservation(
  place: Reservation,
  ttlMs: number,
  action: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await action();
  } catch (error) {
    if (hasDoneNothing(error)) await place.giveBack();
    else await place.leave(ttlMs);
    throw error;
  }
}

/** Settles the reservation of a lease. */
async function settled(lease: Lease, place: Reservation, ttlMs: number): Promise<Answer> {
  const refusal = await place.settle(ttlMs);
  if (refusal === null) return described(lease);
  // The request was slower than its reservation. So the leases of earlier requests are over as well, and
  // nobody counts on this one.
  if (place.isOver) await answered(lease.name, lease.release());
  throw refusal;
}

/** How a request waits. */
interface Wait {
  readonly options: AttachableAcquireOptions;
  readonly limit: WaitLimit;
  readonly waitMs: number;
}

/** How a request acquires a lease. */
interface ClientWait extends Wait {
  readonly ttlMs: number;
  /** Aborts when the client disconnects. */
  readonly gone: AbortSignal;
}

/**
 * Waits for a lock that another owner holds, if the principal may have another waiting request. Resolves
 * with `null` when the time is over.
 */
async function waitInLine(
  parts: ActionParts,
  owner: Owner,
  { options, limit, waitMs }: Wait,
): Promise<Lease | null> {
  const wait = await parts.reservations.forWait(owner, waitMs);
  try {
    return await waitFor(parts, owner.key, options, limit);
  } finally {
    await wait.giveBack();
  }
}

/** Waits for a lock that another owner holds; `null` when the time is over. */
async function waitFor(
  { lock }: ActionParts,
  key: string,
  options: AttachableAcquireOptions,
  limit: WaitLimit,
): Promise<Lease | null> {
  try {
    return await lock.acquire(key, { ...options, signal: limit.signal });
  } catch (error) {
    if (!limit.hasCaused(error)) throw error;
  }
  if (limit.hasTimedOut) return null;
  throw unknownOutcome(); // the server closes, or the client has disconnected
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
function busyWith(
  holderMs: number | undefined,
  { retryAfterMs }: ActionParts["limits"],
): RequestError {
  const remainingMs = holderMs === undefined ? undefined : Math.floor(holderMs);
  return busy(remainingMs, retryAfterMs ?? remainingMs ?? UNKNOWN_TTL_MS);
}
