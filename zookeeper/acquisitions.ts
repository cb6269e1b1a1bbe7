/**
 * How a call acquires a lock: it runs the recipe in the current session, and again in the next session
 * if that one ends. The wait itself is in `recipe/`, how a lock is held is in `held_lock.ts`.
 *
 * @module
 */
import type { Clock } from "../core/time/clock.ts";
import type { AcquireOptions, LockSnapshot, WaitInfo } from "../core/contract/distributed_lock.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import { refusedRelease } from "../core/lease/grant.ts";
import { OutageBudget } from "../core/time/outage_budget.ts";
import { makeOwnerId } from "../core/contract/owner_id.ts";
import { HeldLock } from "./held_lock.ts";
import { LockRecipe } from "./recipe/lock_recipe.ts";
import { ownZnodeGone } from "./recipe/own_watch.ts";
import { OwnZnode } from "./recipe/own_znode.ts";
import { SharedQueues } from "./recipe/shared_queues.ts";
import type { Session } from "./session/session.ts";
import type { SessionSuccession } from "./session/session_succession.ts";
import { readSnapshot } from "./snapshot.ts";
import { classifyFailure } from "./connection/failures.ts";
import type { ZnodeCleanup } from "./znode_cleanup.ts";

/** The options of {@linkcode Acquisitions}. */
export interface AcquisitionsOptions {
  readonly engine: LeaseEngine;
  readonly sessions: SessionSuccession;
  readonly cleanup: ZnodeCleanup;
  readonly label: string;
  /** How long in ms an outage of ZooKeeper may last before a call rejects. */
  readonly unavailableAfterMs: number;
}

/** The bounds of a query. */
export interface QueryBounds {
  /** How many waiters to list. */
  readonly maxWaiters: number;
  /** How long in ms an outage may last, if that is less than `unavailableAfterMs`. */
  readonly withinMs?: number;
}

/** A call that concerns one lock. */
export interface LockCall {
  /** The name of the lock. */
  readonly name: string;
  /** The path of the lock's znode. */
  readonly lockPath: string;
  /** Ends the call: the caller's signal, and disposal. */
  readonly signal: AbortSignal;
}

/** A call of `acquire()` or `tryAcquire()`. */
export interface AcquireCall extends LockCall, Pick<AcquireOptions, "maxHoldMs" | "label"> {
  /** Whether it is a call of `tryAcquire()`, which does not wait for a holder. */
  readonly isTry: boolean;
  /** Notifies the caller of its position, before the first wait and whenever it changes. */
  readonly onWait: ((info: WaitInfo) => void) | undefined;
}

/** The calls of one strategy instance. */
export class Acquisitions {
  readonly #options: AcquisitionsOptions;
  readonly #clock: Clock;
  /** The label of the instance in UTF-8: the data of our znodes. */
  readonly #labelBytes: Uint8Array;
  readonly #queues = new SharedQueues();

  /** Sends nothing yet. */
  constructor(options: AcquisitionsOptions) {
    this.#options = options;
    this.#clock = options.engine.clock;
    this.#labelBytes = new TextEncoder().encode(options.label);
  }

  /**
   * Acquires a lock.
   *
   * @param call The call.
   * @returns The lease. `null` only if `isTry` is set and the lock is held. Our znode is deleted then,
   * before the answer or, if that fails, in the background.
   * @throws {LockUnavailableError} If the outage lasts too long.
   * @throws {LockSetupError} If ZooKeeper refuses, and will refuse again.
   */
  async acquire(call: AcquireCall): Promise<ManagedLease | null> {
    const acquired = this.#inSession(
      call,
      (session, budget) => this.#acquireIn(session, budget, call),
    );
    // Disposal waits for this call, which may still have to delete its znode.
    this.#options.engine.background.run(() => acquired);
    return await acquired;
  }

  /**
   * Reads the queue of a lock.
   *
   * @param call The call.
   * @param bounds How many waiters to list, and how long to wait for an answer.
   * @returns The holder and the waiters.
   * @throws {LockUnavailableError} If the outage lasts too long.
   * @throws {LockSetupError} If ZooKeeper refuses, and will refuse again.
   */
  async query(call: LockCall, { maxWaiters, withinMs }: QueryBounds): Promise<LockSnapshot> {
    const { name, lockPath } = call;
    return await this.#inSession(
      call,
      (session, budget) =>
        budget.ask(() => readSnapshot(session.requests, { name, lockPath, maxWaiters })),
      withinMs,
    );
  }

  /** Runs an attempt in the current session, and again in the next one if that session ends. */
  async #inSession<T>(
    { name, signal }: LockCall,
    attempt: (session: Session, budget: OutageBudget) => Promise<T>,
    withinMs: number = Infinity,
  ): Promise<T> {
    const unavailableAfterMs = Math.min(withinMs, this.#options.unavailableAfterMs);
    const budget = new OutageBudget({
      clock: this.#clock,
      service: "ZooKeeper",
      lockName: name,
      unavailableAfterMs,
      signal,
      classify: classifyFailure,
    });
    for (;;) {
      try {
        return await attempt(await this.#session(budget), budget);
      } catch (error) {
        await budget.recover(error);
      }
    }
  }

  /** Returns the current session, or opens the next one in the time that is left. */
  async #session(budget: OutageBudget): Promise<Session> {
    const { sessions } = this.#options;
    const live = sessions.live();
    // That is no answer: its connection may be lost.
    if (live !== null) return live;
    const session = await budget.settle(sessions.current(), budget.signal);
    budget.answered();
    return session;
  }

  async #acquireIn(
    session: Session,
    budget: OutageBudget,
    call: AcquireCall,
  ): Promise<ManagedLease | null> {
    const { name, lockPath, isTry, onWait, label } = call;
    const data = label === undefined ? this.#labelBytes : new TextEncoder().encode(label);
    const use = this.#queues.use(session, lockPath);
    const znode = new OwnZnode({ session, lockPath, data, isTry, listener: use });
    const { cleanup } = this.#options;
    try {
      const { queue } = use;
      const recipe = new LockRecipe({ clock: this.#clock, name, znode, queue, budget });
      const isOurs = isTry ? await recipe.tryWin(onWait) : await recipe.waitForTurn(onWait);
      if (isOurs) return await this.#openLease(call, znode, budget, await recipe.fencingToken());
    } catch (error) {
      cleanup.deleteInBackground(znode);
      throw error;
    }
    const answer = await cleanup.delete(znode);
    if (answer.state === "refused") throw refusedRelease(name, answer);
    if (answer.state === "unknown") cleanup.deleteInBackground(znode);
    return null;
  }

  async #openLease(
    { name, maxHoldMs, signal, label = this.#options.label }: AcquireCall,
    znode: OwnZnode,
    budget: OutageBudget,
    fencingToken: bigint,
  ): Promise<ManagedLease> {
    const { engine, cleanup } = this.#options;
    const { session } = znode;
    const { validity } = session;
    // It was created together with our znode, unless there was an outage.
    if (session.prepareHeartbeat() !== null) {
      await budget.ask(async () => void await session.prepareHeartbeat());
    }
    // A waiter sends no writes, so after a long wait the session must be proven again.
    while (!validity.isRecent) await budget.ask(() => session.sendHeartbeat());
    signal.throwIfAborted();
    if (znode.watch.state === "deleted") throw ownZnodeGone();
    const held = new HeldLock(this.#clock, znode, cleanup);
    const lease = engine.open({
      name,
      ownerId: makeOwnerId(label),
      fencingToken,
      sent: validity.lastProvenAt,
      ttlMs: session.timeoutMs,
      validMs: validity.validMs,
      autoRenew: true,
      watchEveryMs: session.heartbeatEveryMs,
      maxHoldMs,
    }, held)!; // Not `null`: the session was proven recently, so the grant is not too late.
    held.guard(lease);
    return lease;
  }
}
