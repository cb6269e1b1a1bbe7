/**
 * Starts the calls of one `RedisLock`: acquisitions, steals and queries. How a call gets the lock is in
 * `acquisition.ts`.
 *
 * @module
 */
import { pause } from "../core/clock.ts";
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  Lease,
  LockSnapshot,
  QueryOptions,
} from "../core/distributed_lock.ts";
import { LockError } from "../core/errors.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { Lifetime } from "../core/lifetime.ts";
import { OutageBudget, RETRY_MS } from "../core/outage_budget.ts";
import { makeOwnerId } from "../core/owner_id.ts";
import { checkAttachableOptions, checkCount, checkName } from "../core/validate.ts";
import { Acquisition } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";
import type { readOptions } from "./options.ts";
import type { AskMode } from "./protocol/ask.ts";
import { classifyFailure } from "./protocol/failures.ts";
import { type LockKeys, lockKeys } from "./protocol/keys.ts";
import { makeOwner } from "./protocol/owner_value.ts";
import type { QueryAnswer } from "./protocol/replies.ts";
import { repeated } from "./repeated.ts";
import { SharedAcquisitions } from "./shared_acquisitions.ts";
import { snapshotOf } from "./snapshot.ts";

/** How many waiters a query lists unless the caller says so. The server lists no more. */
const DEFAULT_MAX_WAITERS = 64;
/** How often a steal is tried while the holder changes. */
const MAX_STEALS = 20;

/** The calls of one `RedisLock`. Each checks its arguments before any I/O. */
export class Calls {
  readonly #context: CallContext;
  readonly #lifetime: Lifetime;
  readonly #options: ReturnType<typeof readOptions>;
  readonly #shared: SharedAcquisitions;
  /** The keys of the last lock. Most calls are for the same lock as the call before. */
  #lastKeys: { readonly name: string; readonly keys: LockKeys } | null = null;

  constructor(
    context: CallContext,
    lifetime: Lifetime,
    options: ReturnType<typeof readOptions>,
  ) {
    this.#context = context;
    this.#lifetime = lifetime;
    this.#options = options;
    this.#shared = new SharedAcquisitions(context);
  }

  /** Acquires the lock, in one of the modes of an ask. */
  async acquire(
    name: string,
    options: AttachableAcquireOptions,
    mode: AskMode,
  ): Promise<ManagedLease | null> {
    const keys = this.#check(name, options);
    options.signal?.throwIfAborted();
    const { ownerId, signal: callerSignal, maxHoldMs, onWait } = options;
    const { ttlMs = this.#options.ttlMs, autoRenew = true, outlivesDisposal = false } = options;
    const owner = ownerId === undefined
      ? makeOwner(makeOwnerId(this.#lifetime.label), this.#context.waiters.inbox.nonce)
      : makeOwner(ownerId);
    const { ended } = this.#lifetime;
    const budget = this.#budget(name, ended);
    const request = {
      name,
      keys,
      owner,
      mode,
      ttlMs,
      autoRenew,
      maxHoldMs,
      outlivesDisposal,
      budget,
      unavailableAfterMs: this.#options.unavailableAfterMs,
      callerSignal,
      ended,
      onWait,
    };
    if (ownerId !== undefined) {
      return await this.#shared.join(request, this.#lifetime.waitSignal(callerSignal));
    }
    return await new Acquisition(this.#context, request).run();
  }

  /** Steals from the holder that it reads, and from the next one if the holder changes meanwhile. */
  async steal(name: string, options: AcquireOptions): Promise<Lease> {
    const keys = this.#check(name, options);
    const signal = this.#lifetime.waitSignal(options.signal);
    for (let i = 0; i < MAX_STEALS; i++) {
      const { digest } = await this.#read(name, keys, 0, signal);
      const mode: AskMode = digest === null
        ? { kind: "try" }
        : { kind: "steal", victimDigest: digest };
      const lease = await this.acquire(name, options, mode);
      if (lease !== null) return lease;
      await pause(this.#context.engine.clock, RETRY_MS, signal);
      signal.throwIfAborted();
    }
    throw new LockError(
      `Cannot steal lock ${JSON.stringify(name)}: ` +
        `its holder changed during each of ${MAX_STEALS} attempts; try again, or wait for the lock`,
      name,
    );
  }

  /** Reads the holder and the waiters. */
  async query(
    name: string,
    { maxWaiters = DEFAULT_MAX_WAITERS }: QueryOptions,
  ): Promise<LockSnapshot> {
    checkCount("maxWaiters", maxWaiters);
    const keys = this.#check(name, {});
    return snapshotOf(name, await this.#read(name, keys, maxWaiters, this.#lifetime.ended));
  }

  #check(name: string, options: AttachableAcquireOptions): LockKeys {
    checkName(name);
    checkAttachableOptions(options);
    this.#lifetime.throwIfEnded();
    if (this.#lastKeys?.name !== name) {
      this.#lastKeys = { name, keys: lockKeys(this.#options.keyPrefix, name) };
    }
    return this.#lastKeys.keys;
  }

  async #read(
    name: string,
    keys: LockKeys,
    maxWaiters: number,
    signal: AbortSignal,
  ): Promise<QueryAnswer> {
    const { commands } = this.#context;
    return await repeated(this.#budget(name, signal), signal, () => {
      return commands.query(keys, maxWaiters);
    });
  }

  #budget(lockName: string, signal: AbortSignal): OutageBudget {
    const { engine: { clock }, commands } = this.#context;
    return new OutageBudget({
      clock,
      service: "Redis",
      lockName,
      unavailableAfterMs: this.#options.unavailableAfterMs,
      signal,
      classify: classifyFailure,
      connectionError: () => commands.connectionError,
    });
  }
}
