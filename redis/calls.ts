/**
 * Starts the calls of one `RedisLock`: acquisitions, steals and queries. How a call gets the lock is in
 * `acquisition.ts`.
 *
 * @module
 */
import { ANSWER_WITHIN_MS, type WaitSource } from "../core/time/bounded_wait.ts";
import {
  checkAttachableOptions,
  checkAttachOptions,
  readMaxWaiters,
} from "../core/contract/call_options.ts";
import { pause } from "../core/time/clock.ts";
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachOptions,
  Lease,
  LockSnapshot,
  QueryOptions,
} from "../core/contract/distributed_lock.ts";
import { LockError } from "../core/contract/errors.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { Lifetime } from "../core/lease/lifetime.ts";
import { OutageBudget, RETRY_MS } from "../core/time/outage_budget.ts";
import { makeOwnerId } from "../core/contract/owner_id.ts";
import { checkName, OWNER_ID } from "../core/contract/options.ts";
import { Acquisition } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";
import type { RedisLockSettings } from "./options.ts";
import type { AskMode } from "./protocol/ask.ts";
import { classifyFailure } from "./protocol/failures.ts";
import { type LockKeys, lockKeys } from "./protocol/keys.ts";
import { makeOwner } from "./protocol/owner_value.ts";
import type { QueryAnswer } from "./protocol/replies.ts";
import { repeated } from "./repeated.ts";
import { SharedAcquisitions } from "./shared_acquisitions.ts";
import { snapshotOf } from "./snapshot.ts";

/** How often a steal is tried while the holder changes. */
const MAX_STEALS = 20;

/** The calls of one `RedisLock`. Each checks its arguments before any I/O. */
export class Calls implements WaitSource<AttachableAcquireOptions> {
  readonly #context: CallContext;
  readonly #lifetime: Lifetime;
  readonly #options: RedisLockSettings;
  readonly #shared: SharedAcquisitions;
  /** The keys of the last lock. Most calls are for the same lock as the call before. */
  #lastKeys: { readonly name: string; readonly keys: LockKeys } | null = null;

  constructor(
    context: CallContext,
    lifetime: Lifetime,
    options: RedisLockSettings,
  ) {
    this.#context = context;
    this.#lifetime = lifetime;
    this.#options = options;
    this.#shared = new SharedAcquisitions(context);
  }

  /** Implements {@linkcode WaitSource}. */
  check(name: string, options: AttachableAcquireOptions): void {
    this.#check(name, options);
  }

  /** Acquires the lock; waits in the queue for it. */
  wait(name: string, options: AttachableAcquireOptions): Promise<Lease> {
    // A wait ends with a lease or rejects.
    return this.#acquire(name, options, { kind: "wait" }) as Promise<Lease>;
  }

  /** Acquires the lock if it is free and has no queue. */
  tryOnce(name: string, options: AttachableAcquireOptions): Promise<Lease | null> {
    return this.#acquire(name, options, { kind: "try" });
  }

  /** Takes over a lease by its owner id. */
  async attach(name: string, ownerId: string, options: AttachOptions): Promise<Lease | null> {
    OWNER_ID.check("'ownerId'", ownerId);
    checkAttachOptions(options);
    return await this.#acquire(name, { ...options, ownerId }, { kind: "attach" });
  }

  /** Acquires the lock, in one of the modes of an ask. */
  async #acquire(
    name: string,
    options: AttachableAcquireOptions,
    mode: AskMode,
  ): Promise<ManagedLease | null> {
    const keys = this.#check(name, options);
    options.signal?.throwIfAborted();
    const { ownerId, signal: callerSignal, maxHoldMs, onWait } = options;
    const { ttlMs = this.#options.ttlMs, autoRenew = true, outlivesDisposal = false } = options;
    const owner = ownerId === undefined
      ? makeOwner(
        makeOwnerId(options.label ?? this.#lifetime.label),
        this.#context.waiters.inbox.nonce,
      )
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
      const { digest } = await this.#read(this.#budget(name, signal), keys, 0);
      const mode: AskMode = digest === null
        ? { kind: "try" }
        : { kind: "steal", victimDigest: digest };
      const lease = await this.#acquire(name, options, mode);
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
  async query(name: string, options: QueryOptions): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    const keys = this.#check(name, {});
    const budget = this.#budget(name, this.#lifetime.ended);
    return snapshotOf(name, await this.#read(budget, keys, maxWaiters));
  }

  /** Implements {@linkcode WaitSource}. */
  async look(name: string): Promise<LockSnapshot> {
    const keys = this.#check(name, {});
    const limitMs = Math.min(ANSWER_WITHIN_MS, this.#options.unavailableAfterMs);
    const budget = this.#budget(name, this.#lifetime.ended, limitMs);
    return snapshotOf(name, await this.#read(budget, keys, 0));
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

  /** Reads until there is an answer. Its signal ends the wait for it. */
  #read(budget: OutageBudget, keys: LockKeys, maxWaiters: number): Promise<QueryAnswer> {
    const { commands } = this.#context;
    return repeated(budget, budget.signal, () => commands.query(keys, maxWaiters));
  }

  #budget(
    lockName: string,
    signal: AbortSignal,
    unavailableAfterMs: number = this.#options.unavailableAfterMs,
  ): OutageBudget {
    const { engine: { clock }, commands } = this.#context;
    return new OutageBudget({
      clock,
      service: "Redis",
      lockName,
      unavailableAfterMs,
      signal,
      classify: classifyFailure,
      connectionError: () => commands.connectionError,
    });
  }
}
