/**
 * How an instance acquires locks, keeps them and gives them back.
 *
 * @module
 */
import { type Clock, pause, settledWithin } from "../core/clock.ts";
import type { LeaseOptions } from "../core/distributed_lock.ts";
import type { ReleaseAnswer, RenewAnswer } from "../core/grant.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { LeaseEngine } from "../core/lease_engine.ts";
import { makeOwnerId } from "../core/owner_id.ts";
import { Contest } from "./recipe/lock_recipe.ts";
import { OwnZnode, ownZnodeGone } from "./recipe/own_znode.ts";
import { IdleParents } from "./parents.ts";
import { OutageBudget, RETRY_MS } from "../core/outage_budget.ts";
import { classifyFailure } from "./transport/errors.ts";
import type { Session } from "./session/session.ts";
import type { Sessions } from "./session/sessions.ts";

/** What acquisitions work with. */
export interface AcquisitionsOptions {
  readonly engine: LeaseEngine;
  readonly sessions: Sessions;
  readonly label: string;
  readonly unavailableAfterMs: number;
}

/** A lock that is wanted. */
export interface Wanted extends LeaseOptions {
  readonly name: string;
  /** The path of the lock's znode. */
  readonly parent: string;
  /** The caller's own signal and disposal. */
  readonly signal: AbortSignal;
  /** Whether the call does not wait for a holder. */
  readonly isBrief: boolean;
}

/** The locks of one instance. */
export class Acquisitions {
  readonly #options: AcquisitionsOptions;
  readonly #clock: Clock;
  readonly #data: Uint8Array;
  readonly #parents = new IdleParents();

  /** Asks for nothing yet. */
  constructor(options: AcquisitionsOptions) {
    this.#options = options;
    this.#clock = options.engine.clock;
    this.#data = new TextEncoder().encode(options.label);
  }

  /**
   * Stands in the queue of a lock.
   *
   * @param wanted The lock.
   * @param wins Goes through the queue as far as wanted; whether the lock is ours then.
   * @returns The lease if it is; `null` if not: then our znode is deleted, now or soon.
   */
  async take(
    wanted: Wanted,
    wins: (contest: Contest) => Promise<boolean>,
  ): Promise<ManagedLease | null> {
    const taken = this.patiently(wanted.name, wanted.signal, async (session, budget) => {
      const { name, parent, isBrief } = wanted;
      const data = this.#data;
      const znode = new OwnZnode({ clock: this.#clock, session, parent, data, isBrief });
      const contest = new Contest({ clock: this.#clock, name, znode, budget });
      try {
        if (await wins(contest)) {
          return await this.#open(wanted, znode, budget, await contest.token());
        }
      } catch (error) {
        this.#abandon(znode);
        throw error;
      }
      const { state } = await this.#leave(znode);
      if (state === "unknown") this.#abandon(znode);
      return null;
    });
    this.#options.engine.background.run(() => taken); // Disposal waits for what it still does.
    return await taken;
  }

  /**
   * Does something in a session, and in the next one if that ends, until the outage budget is used up.
   *
   * @param name The name of the lock, for errors.
   * @param signal Ends it.
   * @param attempt What to do. A session that ends makes it reject.
   * @returns The outcome.
   */
  async patiently<T>(
    name: string,
    signal: AbortSignal,
    attempt: (session: Session, budget: OutageBudget) => Promise<T>,
  ): Promise<T> {
    const { sessions, unavailableAfterMs } = this.#options;
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
        const session = await budget.ask(() => sessions.current());
        return await attempt(session, budget);
      } catch (error) {
        await budget.recover(error);
      }
    }
  }

  /** Deletes the znodes of locks that nobody uses, within `timeoutMs`. */
  async tidy(timeoutMs: number): Promise<void> {
    await settledWithin(this.#clock, this.#deleteParents(this.#parents.takeAll()), timeoutMs);
  }

  async #open(
    { name, maxHoldMs, signal }: Wanted,
    znode: OwnZnode,
    budget: OutageBudget,
    fencingToken: bigint,
  ): Promise<ManagedLease> {
    const { session } = znode;
    // A wait may have been long.
    while (!session.isFresh) await budget.ask(() => session.prove());
    signal.throwIfAborted();
    if (znode.isGone) throw ownZnodeGone();
    const { timeoutMs, validMs, proof } = session;
    const lease = this.#options.engine.open({
      name,
      ownerId: makeOwnerId(this.#options.label),
      fencingToken,
      sent: proof,
      ttlMs: timeoutMs,
      validMs,
      autoRenew: true,
      watchEveryMs: timeoutMs / 6,
      maxHoldMs,
    }, {
      renew: () => this.#prove(znode),
      release: () => this.#leave(znode),
      lapsed: () => {
        session.lapse();
        return "session-expired";
      },
    })!; // A fresh proof is not too late.
    znode.hold(() => lease.lose("stolen"));
    return lease;
  }

  /** A heartbeat, and a look whether the znode is still watched. */
  async #prove(znode: OwnZnode): Promise<RenewAnswer> {
    const { session } = znode;
    const askedMs = this.#clock.now();
    void znode.keepWatch();
    try {
      await session.prove();
      // The write that proves it may have gone out before we asked.
      return { state: "held", validMs: session.proof.nowMs + session.validMs - askedMs };
    } catch (cause) {
      return { state: "unknown", cause };
    }
  }

  /** Deletes a znode; one attempt. */
  #leave(znode: OwnZnode): Promise<ReleaseAnswer> {
    const { engine, sessions } = this.#options;
    const idle = this.#parents.left(znode.parent, this.#clock.now());
    if (idle.length > 0) engine.background.run(() => this.#deleteParents(idle));
    // The server may keep the znodes of a session that we gave up: others need not wait for that.
    return znode.leave(() => sessions.current());
  }

  /** Deletes a znode in the background, until it is gone. */
  #abandon(znode: OwnZnode): void {
    const { engine } = this.#options;
    const { stopped } = engine;
    engine.background.run(async () => {
      while (!stopped.aborted && (await this.#leave(znode)).state === "unknown") {
        await pause(this.#clock, RETRY_MS, stopped);
      }
    });
  }

  /** Deletes the znodes of locks; ZooKeeper refuses for those that are in use. */
  async #deleteParents(paths: readonly string[]): Promise<void> {
    if (paths.length === 0) return;
    const session = await this.#options.sessions.current();
    await Promise.allSettled(paths.map((path) => session.delete(path)));
  }
}
