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
import { busy, notHeld, type RequestError, unknownOutcome } from "./request_error.ts";
import type { Puts } from "./puts.ts";
import { type Answer, answered, isRenewed, untilAnswered } from "./tries.ts";

/** The input of an action. */
export interface ActionParts extends LockRequest {
  readonly lock: AttachableLock;
  readonly puts: Puts;
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
  const terms = readBody(parts, ["ttlMs", "waitMs"]);
  const { gone } = new ResponseWatch(parts.response);
  return await parts.puts.join(owner, terms, gone, (left) => acquireFor(parts, owner, terms, left));
}

/** Acquires the lock for all clients of a PUT. */
async function acquireFor(
  parts: ActionParts,
  { key, ownerId }: Owner,
  { ttlMs, waitMs }: { readonly ttlMs: number; readonly waitMs: number },
  left: AbortSignal,
): Promise<Answer> {
  const { lock } = parts;
  const limit = new WaitLimit(waitMs, [left, parts.closing]);
  let remainingMs: number | undefined;
  const onWait = (info: WaitInfo) => void (remainingMs = info.remainingMs);
  const options = { ...LEASE, ownerId, ttlMs, onWait };
  try {
    return await untilAnswered(key, async () => {
      if (left.aborted) throw unknownOutcome(); // nobody would receive the lease
      // No signal is passed to a try: cut off, it would release what an earlier PUT has acquired.
      let lease = await lock.tryAcquire(key, options);
      if (lease === null && waitMs > 0) {
        // The owner id may have been granted the lock as its wait ended: only a last try tells.
        lease = await waitFor(lock, key, options, limit) ??
          await answered(key, lock.tryAcquire(key, options));
      }
      if (lease === null) throw busyWith(remainingMs, parts.limits);
      // A request with the same id at another server may have taken it over: a renewal tells.
      return await isRenewed(lease, ttlMs) ? described(lease) : null;
    });
  } finally {
    limit[Symbol.dispose]();
  }
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

/** Waits for a lock that another owner holds; `null` when the time is over. */
async function waitFor(
  lock: AttachableLock,
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
