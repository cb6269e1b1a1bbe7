/**
 * The public class of the Redis strategy. The life of a call that asks for a lock is in `acquisition.ts`.
 *
 * @module
 */
import { ANSWER_WITHIN_MS, unanswered } from "../core/time/bounded_wait.ts";
import {
  ATTACHABLE_OPTIONS,
  modeOf,
  readAttachOptions,
  readMaxWaiters,
  readPrefix,
} from "../core/contract/call_options.ts";
import { pause, settledWithin, SYSTEM_CLOCK } from "../core/time/clock.ts";
import type {
  AttachableAcquireOptions,
  AttachableLock,
  AttachableRequestOptions,
  AttachOptions,
  Lease,
  ListableLock,
  ListOptions,
  LockCapabilities,
  LockHolder,
  LockSnapshot,
  QueryOptions,
  RequestMethod,
} from "../core/contract/distributed_lock.ts";
import { LockError, LockSetupError } from "../core/contract/errors.ts";
import type { LeaseRequest } from "../core/lease/grant.ts";
import { Calls, isPlain } from "../core/lease/calls.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import { Nesting } from "../core/contract/nesting.ts";
import {
  checkName,
  makeOwnerId,
  OWNER_ID,
  type ReadOptions,
  readTable,
} from "../core/contract/options.ts";
import { promiseTry } from "../core/contract/promise_try.ts";
import { requestOn } from "../core/contract/request.ts";
import { NoAnswerError, OutageBudget, RETRY_MS } from "../core/time/outage_budget.ts";
import { Acquisition, type AcquisitionTerms, type CallContext } from "./acquisition.ts";
import type { RedisClient } from "./client.ts";
import { HeldLeases } from "./held_leases.ts";
import {
  OWN_NONCE,
  type OwnNonceOptions,
  REDIS_LOCK_OPTIONS,
  type RedisLockOptions,
} from "./options.ts";
import { canList, checkListable, listNames } from "./listing.ts";
import { OwnerCalls } from "./owner_calls.ts";
import { type Ask, NO_LIMIT, type QueryAnswer } from "./protocol/wire.ts";
import { RedisCommands } from "./protocol/commands.ts";
import { classifyFailure, hideCommand } from "./protocol/failures.ts";
import { isOurs, labelOfValue, type LockKeys, lockKeys, ownerValue } from "./protocol/keys.ts";
import { SharedTimer } from "./shared_timer.ts";
import { Waiters } from "./waiting/waiters.ts";

const CAPABILITIES = {
  fifo: "global",
  endsBy: "ttl",
  steal: true,
  attach: true,
  shared: true,
  limit: true,
} as const;
/** How often a steal is tried while the holder changes. */
const MAX_STEALS = 20;
/** Least time in ms for closing connections, if the releases have used up `disposeTimeoutMs`. */
const CLOSE_MS = 100;

/**
 * Named locks on one Redis (6.2 or later) or Valkey (7.2 or later) server, or on a cluster of them.
 *
 * A lock is a key that expires by its TTL. Lua scripts make acquire, renewal and release atomic, and safe to be
 * executed twice, late or not at all. An uncontended acquire is one round trip, and so is a release. Waiters queue on
 * the server, first in, first out: a release makes the next live waiter the holder and notifies only that waiter. A
 * lease counts from the moment its request was *sent*, minus an allowance for clock drift, so it ends here before it
 * expires on the server. A steal is the exception: a victim on the same client, or one whose instance is subscribed
 * to its inbox (it was granted the lock from the queue, or made the owner id itself and has had to wait before), is
 * notified at once. Any other victim believes in its lease until its next renewal, for a third of its TTL (with
 * `autoRenew: false`, until its deadline). The same holds if another instance takes the lock over under its owner id.
 *
 * Limits: a server that loses data (a restart without persistence, the failover to a replica that had not received
 * the key, eviction) can grant a lock twice. The fencing token, `max(previous + 1, server clock in µs)`, lets the
 * resource reject the earlier holder. The server skips a waiter that seems to be dead (its process is frozen, its
 * subscription broken). When that waiter asks again, it gets its old place back.
 *
 * In Redis Cluster all keys of a lock are in one slot. No node knows whether a waiter is still
 * subscribed, so a dead waiter blocks the lock for up to three seconds when its turn comes.
 *
 * @see {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/}
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(client), { ttlMs: 10_000 });
 *   await using lease = await locks.acquire("orders:42", { waitMs: 5_000 });
 *   lease.throwIfLost();
 * }
 * client.destroy();
 * ```
 */
export class RedisLock implements AttachableLock, ListableLock {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities;
  readonly #nesting = new Nesting(this);
  /** Runs a callback under the lock. See {@linkcode AttachableLock.request}. */
  readonly request: RequestMethod<AttachableRequestOptions> = requestOn(this, {
    options: ATTACHABLE_OPTIONS,
    nesting: this.#nesting,
    steal: this.#steal.bind(this),
  });
  readonly #lifetime: Lifetime;
  /** Shared: a timer of the runtime per deadline would cost a sixth of an uncontended cycle. */
  readonly #timer = new SharedTimer(SYSTEM_CLOCK);
  readonly #options: ReadOptions<RedisLockOptions, typeof REDIS_LOCK_OPTIONS>;
  readonly #ownNonce: OwnNonceOptions[typeof OWN_NONCE];
  readonly #context: CallContext;
  readonly #ownerCalls = new OwnerCalls();
  readonly #calls: Calls;
  /** The keys of the last lock. Most calls are for the same lock as the call before. */
  #lastKeys: { readonly name: string; readonly keys: LockKeys } | null = null;

  /**
   * Creates a manager of locks. It sends nothing before the first call.
   *
   * @param client The user's own Redis client in an adapter: `nodeRedis()`, `ioredis()`,
   * `denoRedis()`, or any other {@linkcode RedisClient}.
   * @throws {LockSetupError} If the client is not in an adapter.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(client: RedisClient, options: RedisLockOptions = {}) {
    if (!isAdapter(client)) {
      throw new LockSetupError(
        "Cannot use this Redis client: pass an adapter, as in new RedisLock(nodeRedis(client)), " +
          "or an object of your own with 'send', 'epoch' and 'cluster'",
      );
    }
    const read = this.#options = readTable("new RedisLock()", options, REDIS_LOCK_OPTIONS);
    this.capabilities = Object.freeze({ ...CAPABILITIES, list: canList(client, read.keyPrefix) });
    this.#ownNonce = (options as OwnNonceOptions)[OWN_NONCE];
    this.#lifetime = new Lifetime(read);
    const { unavailableAfterMs, ttlMs } = read;
    const { warn, ended } = this.#lifetime;
    const clock = this.#timer;
    const engine = new LeaseEngine("redis", clock, read.onRenewalLate);
    const { background } = engine;
    const commands = new RedisCommands(client, { ...read, clock, background, warn });
    const held = new HeldLeases(client);
    const waiters = new Waiters(commands, engine, held, warn, ttlMs);
    const classify = classifyFailure;
    const outage = {
      ...{ clock, service: "Redis", unavailableAfterMs, classify },
      client: withoutCommands(client),
    };
    this.#context = { engine, commands, waiters, held, ended, outage };
    const [lifetime, nesting] = [this.#lifetime, this.#nesting];
    this.#calls = new Calls({ strategy: "redis", lock: this, lifetime, nesting, clock }, {
      // A wait ends with a lease, or rejects.
      wait: async (name, options) => await this.#begin(name, options, "wait").run() as Lease,
      tryOnce: async (name, options, withinMs) =>
        await this.#begin(name, options, "try", "", withinMs).run(),
      look: this.#look.bind(this),
      attach: async (name, options) => await this.#begin(name, options, "attach").run(),
      steal: this.#stealNow.bind(this),
    });
    if (client.warning !== undefined) warn(client.warning);
  }

  /** Acquires the lock; waits in the queue for it. See {@linkcode AttachableLock.acquire}. */
  acquire(name: string, options: AttachableAcquireOptions = {}): Promise<Lease> {
    try { // not async: that would cost each call one more promise
      const read = this.#calls.read(name, options);
      return isPlain(read)
        ? this.#begin(name, read, "wait").run() as Promise<Lease>
        : this.#calls.acquire(name, read);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Acquires the lock if it is free and has no queue. See {@linkcode AttachableLock.tryAcquire}. */
  async tryAcquire(
    name: string,
    options: AttachableAcquireOptions = {},
  ): Promise<Lease | null> {
    return await this.#calls.tryAcquire(name, this.#calls.read(name, options));
  }

  /** Takes over a lease by its owner id. See {@linkcode AttachableLock.attach}. */
  async attach(name: string, ownerId: string, options: AttachOptions = {}): Promise<Lease | null> {
    checkName(name);
    OWNER_ID.check("'ownerId'", ownerId);
    const read = readAttachOptions(options);
    this.#lifetime.throwIfEnded();
    return await this.#calls.attach(name, { ...read, ownerId });
  }

  #begin(
    name: string,
    options: CallOptions,
    mode: Ask["mode"],
    victimDigest = "",
    limitMs = Infinity,
  ): Acquisition {
    options.signal?.throwIfAborted();
    const keys = this.#keys(name);
    const { ownerId: chosen, label = this.#lifetime.label, signal, maxHoldMs, onWait } = options;
    const { ttlMs = this.#options.ttlMs, autoRenew = true, outlivesDisposal = false } = options;
    const leaseMode = modeOf(options);
    const limit = leaseMode === "shared" ? options.limit ?? NO_LIMIT : null;
    const ownerId = chosen ?? makeOwnerId(label);
    const { nonce } = this.#context.waiters.inbox;
    const value = chosen === undefined
      ? ownerValue(ownerId, nonce)
      : ownerValue(ownerId, this.#ownNonce?.(ownerId));
    const terms: AcquisitionTerms = {
      name,
      keys,
      ownerId,
      value,
      mode,
      leaseMode,
      limit,
      victimDigest,
      ttlMs,
      autoRenew,
      maxHoldMs,
      outlivesDisposal,
      signal,
      onWait,
      call: options.call,
    };
    const budget = new OutageBudget(this.#context.outage, name, this.#lifetime.ended, limitMs);
    const call = new Acquisition(this.#context, terms, budget);
    if (chosen !== undefined) this.#ownerCalls.begin(name, chosen, call);
    return call;
  }

  #keys(name: string): LockKeys {
    if (this.#lastKeys?.name !== name) {
      this.#lastKeys = { name, keys: lockKeys(this.#options.keyPrefix, name) };
    }
    return this.#lastKeys.keys;
  }

  async #steal(name: string, options: AttachableAcquireOptions): Promise<Lease> {
    const read = this.#calls.read(name, options); // `signal` is excluded
    if (read.ownerId !== undefined) this.#ownerCalls.check(name, read.ownerId);
    return await this.#calls.steal(name, read);
  }

  /** Steals from the holder that it reads, and from the next one if the holder changes meanwhile. */
  async #stealNow(name: string, options: CallOptions): Promise<Lease> {
    const signal = this.#lifetime.ended;
    for (let i = 0; i < MAX_STEALS; i++) {
      const { digest } = await this.#ask(name, 0);
      const call = digest === null
        ? this.#begin(name, options, "try")
        : this.#begin(name, options, "steal", digest);
      const lease = await call.run();
      if (lease !== null) return lease;
      await pause(this.#timer, RETRY_MS, signal);
    }
    signal.throwIfAborted();
    throw new LockError(
      `Cannot steal lock ${JSON.stringify(name)}: ` +
        `its holder changed during each of ${MAX_STEALS} attempts; try again, or wait for the lock`,
      name,
    );
  }

  /** Reads the holder and the waiters. See {@linkcode AttachableLock.query}. */
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    checkName(name);
    this.#lifetime.throwIfEnded();
    return snapshotOf(name, await this.#ask(name, maxWaiters));
  }

  /**
   * Lists the names of the locks that are held, also by plain `SET` locks of other libraries. It walks all keys
   * of the server, or of each primary of a cluster, by `SCAN`: for each 1,000 keys, those of others included,
   * one request, which costs the server about a millisecond. The user needs the right to `SCAN`
   * (`+scan` in an ACL), which nothing else does. Without a `keyPrefix` it is not supported, for then
   * every key is that of a lock. See {@linkcode ListableLock.list}.
   */
  list(options: ListOptions = {}): AsyncIterable<string> {
    const prefix = readPrefix(options);
    const { commands } = this.#context;
    const { keyPrefix } = this.#options;
    checkListable(commands.client, keyPrefix);
    this.#lifetime.throwIfEnded();
    const newBudget = () =>
      new OutageBudget(this.#context.outage, `${prefix}*`, this.#lifetime.ended);
    return listNames(commands, keyPrefix, prefix, newBudget);
  }

  /** As `query()` without waiters, at the end of a bounded wait. */
  async #look(name: string): Promise<LockSnapshot> {
    this.#lifetime.throwIfEnded();
    const startMs = this.#timer.now();
    try {
      return snapshotOf(name, await this.#ask(name, 0, ANSWER_WITHIN_MS));
    } catch (error) {
      const isUnanswered = error instanceof LockError && error.cause instanceof NoAnswerError;
      const { commands } = this.#context;
      if (isUnanswered && commands.answersOthersSince(startMs)) unanswered(name, true);
      throw error;
    }
  }

  /** Reads the lock. An outage may last for `limitMs` at most. */
  async #ask(name: string, maxWaiters: number, limitMs = Infinity): Promise<QueryAnswer> {
    const keys = this.#keys(name);
    const signal = this.#lifetime.ended;
    const budget = new OutageBudget(this.#context.outage, name, signal, limitMs);
    let withdraw = () => {};
    const request: LeaseRequest = {
      byMs: 0,
      onQueued: (withdrawIt) => void (withdraw = withdrawIt),
      onTurn: () => true,
    };
    for (;;) {
      signal.throwIfAborted();
      try {
        const answer = this.#context.commands.query(keys, maxWaiters, request);
        return await budget.settle(answer);
      } catch (error) {
        withdraw(); // else it would wait for its turn until the end of the outage
        await budget.recover(error);
      }
    }
  }

  /** Rejects waiters with an `AbortError` and ends leases, within `disposeTimeoutMs`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(() => this.#close(this.#lifetime.disposeTimeoutMs));
  }

  async #close(timeoutMs: number): Promise<void> {
    const { engine, commands: { client }, waiters, held } = this.#context;
    const endMs = this.#timer.now() + timeoutMs;
    const isClosed = isClosedForGood(client);
    if (isClosed) this.#warnOfClosedClient();
    waiters.disposeAll();
    await engine.close(isClosed ? 0 : timeoutMs); // a closed client can release nothing
    // The inbox closes after all calls have left: while they wait, its subscription shows they are alive.
    const closed = Promise.allSettled([waiters.inbox.close(), promiseTry(() => client.close?.())]);
    await settledWithin(this.#timer, closed, Math.max(endMs - this.#timer.now(), CLOSE_MS));
    this.#timer.close();
    held.clear();
  }

  #warnOfClosedClient(): void {
    const { count } = this.#context.held;
    if (count === 0) return;
    const stay = count === 1
      ? "1 of them stays held until its TTL is over"
      : `${count} of them stay held until their TTL is over`;
    this.#lifetime.warn(
      `The Redis client was closed before its locks: ${stay}. ` +
        "Dispose the RedisLock first, then close the client",
    );
  }
}

/** Clients of some packages have a `send()` of their own, `Bun.redis` for example. */
function isAdapter(client: RedisClient): boolean {
  return typeof client?.send === "function" && typeof client.epoch === "number" &&
    typeof client.cluster === "boolean";
}

/** The client's `connectionError` without its command, which may be the login: logs show the error as a cause. */
function withoutCommands(client: RedisClient): Pick<RedisClient, "connectionError"> {
  return {
    get connectionError() {
      const error = client.connectionError;
      hideCommand(error);
      return error;
    },
  };
}

/** Also if the client of a user throws, the locks must be released. */
function isClosedForGood(client: RedisClient): boolean {
  try {
    return client.unusable !== undefined;
  } catch {
    return false;
  }
}

/** Makes a snapshot from the server's answer. Shows labels only: an owner id is a secret. */
function snapshotOf(name: string, answer: QueryAnswer): LockSnapshot {
  const { value, leftMs, fencingToken, waiterCount } = answer;
  const waiters = answer.waiters.map(({ value, waitedMs, mode }) => ({
    ...{ mode, ...labelled(value), waitedMs },
  }));
  if (value === null) return { name, holders: [], holderCount: 0, waiters, waiterCount };
  if (answer.shared !== null) {
    const { holders: sharing, holderCount } = answer.shared;
    const holders = sharing.map(({ value, leftMs }): LockHolder => {
      return { mode: "shared", ...labelled(value), remainingMs: leftMs };
    });
    return { name, holders, holderCount, waiters, waiterCount };
  }
  const holder: LockHolder = {
    mode: "exclusive",
    ...labelled(value),
    ...(isOurs(value) && fencingToken > 0n ? { fencingToken } : {}), // the key of the token may be lost
    ...(leftMs < 0 ? {} : { remainingMs: leftMs }),
  };
  return { name, holders: [holder], holderCount: 1, waiters, waiterCount };
}

function labelled(value: string): { label?: string } {
  const label = labelOfValue(value);
  return label === undefined ? {} : { label };
}
