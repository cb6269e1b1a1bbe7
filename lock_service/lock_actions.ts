/**
 * What the routes of the lock service do.
 *
 * @module
 */
import type { AttachableLock, Lease } from "../core/distributed_lock.ts";
import { type Asked, keyOf, notAllowed, ownerOf, readBody } from "../http/internal/lock_request.ts";
import { type NodeResponse, ResponseWatch } from "../http/internal/node_response.ts";
import { RequestError, unknownOutcome } from "../http/internal/request_error.ts";

/** One request. */
export interface LockRequest extends Asked {
  readonly lock: AttachableLock;
  readonly response: NodeResponse;
  /** Aborts when the server is about to close. */
  readonly closing: AbortSignal;
}

/** What is answered, with status 200. All else is an error. */
type Answer = Readonly<Record<string, unknown>>;

/** Leases of the service: nobody renews them but their clients, and they outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
/** How often a lease is looked for that other servers take over at the same time. */
const ATTEMPTS = 10;
/** What they wait between, in ms: more each time, and by chance, so that not all come back at once. */
const BACK_OFF_MS = 5;
/** How long in ms an answer may take; what goes on behind it ends with the lease. */
const ANSWER_MS = 5_000;
/** How long in ms a refusal may wait to learn the holder's TTL. */
const QUERY_MS = 500;
/** Why a request gives up after all attempts. */
const RESTLESS = "The lease was taken over by other servers again and again";
/** Why one gives up that has no answer. */
const SILENT = "Redis does not answer in time";
/** When to come back if the holder's TTL is not known, in ms. */
const UNKNOWN_TTL_MS = 1_000;

/** What each method does. */
export const actions = {
  PUT: acquire,
  PATCH: renew,
  DELETE: release,
  GET: query,
  POST: refuse,
} as const;

async function acquire(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "acquire");
  const { ttlMs, waitMs } = readBody(asked, ["ttlMs", "waitMs"]);
  using wait = new Wait(waitMs, new ResponseWatch(asked.response).gone, asked.closing);
  const { lock } = asked;
  const options = { ...LEASE, ownerId, ttlMs };
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    wait.throwIfGone();
    // Not under the client's signal: a repeated request that is cut off must not give back what the
    // first one has got.
    const lease = await lock.tryAcquire(key, options) ?? await wait.for(lock, key, options);
    // It may be a lease that this process remembers: only the service knows whether it is held.
    if (await isRenewed(lease, ttlMs)) return described(lease);
    await backOff(attempt);
  }
  throw unknownOutcome(RESTLESS);
}

async function renew(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "renew");
  const { ttlMs } = readBody(asked, ["ttlMs"]);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lease = await asked.lock.attach(key, ownerId, { ...LEASE, ttlMs });
    if (lease === null) throw notHeld();
    if (await isRenewed(lease, ttlMs)) return described(lease);
    await backOff(attempt);
  }
  throw unknownOutcome(RESTLESS);
}

async function release(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "release");
  readBody(asked, []);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lease = await asked.lock.attach(key, ownerId, LEASE);
    if (lease === null) throw notHeld();
    if (await answered(lease.release())) return { key, released: true };
    await backOff(attempt);
  }
  throw unknownOutcome(RESTLESS);
}

async function query(asked: LockRequest): Promise<Answer> {
  const key = await keyOf(asked);
  const { holders: [holder], waiterCount } = await asked.lock.query(key);
  const fencingToken = holder?.fencingToken === undefined ? undefined : String(holder.fencingToken);
  const remainingMs = holder?.remainingMs === undefined
    ? undefined
    : Math.floor(holder.remainingMs);
  return { key, held: holder !== undefined, fencingToken, remainingMs, waiters: waiterCount };
}

// deno-lint-ignore require-await -- as the others are
async function refuse({ request }: LockRequest): Promise<Answer> {
  throw notAllowed(request);
}

/** A wait that ends by its time, with the client or with the server. */
class Wait {
  readonly #controller = new AbortController();
  readonly #gone: AbortSignal;
  readonly #ends: readonly AbortSignal[];
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #ms: number;
  #isOver = false;

  constructor(ms: number, gone: AbortSignal, closing: AbortSignal) {
    this.#ms = ms;
    this.#gone = gone;
    this.#ends = [gone, closing];
    for (const end of this.#ends) end.addEventListener("abort", this.#end);
    if (this.#ends.some(({ aborted }) => aborted)) this.#end();
    if (ms > 0) {
      this.#timer = setTimeout(() => {
        this.#isOver = true;
        this.#end();
      }, ms);
    }
  }

  /** Nobody would learn of a lease that was asked for from now on. */
  throwIfGone(): void {
    if (this.#gone.aborted) throw unknownOutcome();
  }

  /** Waits for the lock, which somebody else holds. */
  async for(
    lock: AttachableLock,
    key: string,
    options: Parameters<AttachableLock["acquire"]>[1],
  ): Promise<Lease> {
    if (this.#ms === 0) throw busy(await remainingMs(lock, key));
    const { signal } = this.#controller;
    try {
      return await lock.acquire(key, { ...options, signal });
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
    }
    if (!this.#isOver) throw unknownOutcome(); // the server closes, or nobody reads this
    const leftMs = await remainingMs(lock, key);
    throw leftMs === null ? unknownOutcome(SILENT) : busy(leftMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const end of this.#ends) end.removeEventListener("abort", this.#end);
  }

  readonly #end = (): void => {
    this.#controller.abort(new DOMException("The wait is over", "AbortError"));
  };
}

/** The holder's TTL; undefined if it has none or nobody holds the lock, null without an answer. */
async function remainingMs(lock: AttachableLock, key: string): Promise<number | undefined | null> {
  const asked = lock.query(key).then(({ holders: [holder] }) => holder?.remainingMs, () => null);
  return await before(QUERY_MS, asked, () => null);
}

async function isRenewed(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await answered(lease.renew(ttlMs));
    return lease.remainingMs >= 1;
  } catch (error) {
    if (error instanceof Error && error.name === "LeaseLostError") return false;
    if (error instanceof Error && error.name === "LockError") return false; // released meanwhile
    throw error;
  }
}

function backOff(attempt: number): Promise<void> {
  const ms = attempt * BACK_OFF_MS * Math.random();
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits for an answer of the service, but not as long as a lease may last. */
function answered<T>(answer: Promise<T>): Promise<T> {
  return before(ANSWER_MS, answer, () => {
    throw unknownOutcome(SILENT);
  });
}

/** What is answered in time, or what `late` makes of it. */
async function before<T>(ms: number, answer: Promise<T>, late: () => T): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<null>((resolve) => timer = setTimeout(() => resolve(null), ms));
  try {
    const first = await Promise.race([answer.then((value) => ({ value })), over]);
    return first === null ? late() : first.value;
  } finally {
    clearTimeout(timer);
  }
}

/** As text: other languages' numbers may be too small for a token. */
function described({ name, fencingToken, remainingMs }: Lease): Answer {
  return {
    key: name,
    fencingToken: String(fencingToken),
    remainingMs: Math.floor(remainingMs),
  };
}

/** Somebody else holds the lock: for how long, unless that is not known. */
function busy(leftMs: number | undefined | null): RequestError {
  const remainingMs = leftMs === undefined || leftMs === null ? undefined : Math.floor(leftMs);
  return new RequestError("busy", {
    status: 409,
    title: "Busy",
    detail: "Somebody else holds the lock",
    retryAfterMs: remainingMs ?? UNKNOWN_TTL_MS,
  }, { members: { remainingMs } });
}

/** Whoever else holds the lock, or nobody. */
function notHeld(): RequestError {
  return new RequestError("not-held", {
    status: 404,
    title: "Not held",
    detail: "The lock is not held under this id",
  });
}
