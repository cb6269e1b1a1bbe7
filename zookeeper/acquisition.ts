/**
 * One call of `acquire()` or `tryAcquire()`, from top to bottom: how it gets a lock, holds it, and deletes its
 * znode. The queue of a lock is the children of the lock's znode, by sequence number. A _try_ is a call that does
 * not wait: a `tryAcquire()` without `waitMs`, or any call with 0.
 *
 * 1. **Enter**, at most 128 calls of an instance at a time: create our znode, an ephemeral sequential child, and, in
 *    the same tick, list the children; but an `acquire` does not list while other acquires of this instance enter or
 *    wait for the lock (a shared one with `onWait` does, behind few).
 * 2. **First**: if no blocker is ahead of our znode, the lock is ours. No later znode can get ahead of it. Every
 *    znode ahead is a blocker; if ours is shared, which its name shows, only exclusive ones are.
 * 3. **Wait**: else watch, by `getData`, the nearest blocker and our znode until one of them or the connection
 *    changes. If the blocker is gone, our watch is still set on the connection of the listing, and few other
 *    blockers were ahead, read those; else list the children; go to 2. While other waiters of this instance are
 *    ahead, watch only our znode, unless they and ours are shared; after them go on with what the instance knows, or
 *    list. A try waits only if all its blockers are tries, of any instance: until the first of them has left (go to
 *    2) or is 100 ms old. Else it ends without a lease.
 * 4. **Token**: the czxid of our znode, which is read when its watch is set. Without a wait, if a listing shows our
 *    znode alone, the zxid of the last change to the children will do, and nothing is read: it is greater than all
 *    earlier tokens and less than all later ones.
 * 5. **Lease**: an answered write proves the session for ⅔ of its timeout T as a rule, from when it was sent (see
 *    `session.ts`). If less time than T/4 is left of that, or the process was suspended since, a heartbeat goes
 *    first, and after it our znode is read, unless its watch is set: it may have been deleted. Both are repeated
 *    until enough is proven, for T at most: then the call rejects.
 * 6. **Held**: one heartbeat for all leases is written every T/6, to a znode of the session, unless another write
 *    was answered. A znode that was granted without a watch gets one after T/10, one that lost it with the next
 *    connection. If another client deletes it (here nobody can steal a lock), the lease is lost as `"stolen"`. The
 *    session is over, and all its leases are lost as `"session-expired"`, if no write is answered until their
 *    deadline, nothing arrives or there is no connection for T, or the server ends or refuses it, or grants another
 *    timeout. After a suspension of the process a lease is unproven until a later heartbeat is answered.
 * 7. **Release**, loss, or a call that ends without a lease or starts over: delete our znode again and again, in a
 *    later session if its own is over, until the server has deleted it, says that it is gone or that its session has
 *    expired, or refuses for good, or disposal closes the session. `release()` waits until the deadline at most; if
 *    the server refuses, it rejects, and so does a try.
 *
 * If our znode is deleted or the session ends during 1 to 5, or the create was surely not executed, and not refused,
 * the call starts over with a new znode, in the next session if this one is over. A create without an answer may
 * have been executed: after a write on the new connection its znode is searched for by its UUID, and created again
 * if it is not there; a call that has ended deletes it. An outage ends the call when its requests have had no answer
 * for `unavailableAfterMs`, or 1 s with `waitMs: 0`. A call that sleeps in 3 sends one once the connection is
 * dropped: by the server, or since the session, which reads something each 0.3 T, has had no answer for
 * `requestTimeoutMs`.
 *
 * Between calls of one instance a handoff is faster. A waiter that watches its own znode counts that of a holder
 * which had none ahead as deleted as soon as the holder begins to delete it, if both znodes surely existed together:
 * if nothing else is ahead, the lock is its own, and its own znode keeps all others out.
 *
 * Below this page: our znode in `recipe/own_znode.ts`, the wait in `recipe/waiter.ts`, what the calls of an instance
 * know together in `recipe/shared_queue.ts`, the session and its proof in `session/`, lost replies and reconnects in
 * `connection/`, the delete of unused locks in `idle_locks.ts`, disposal in `zookeeper_lock.ts`, the states of the
 * lease, with `maxHoldMs`, in `core/lease/lease.ts`.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 * @see {@link https://github.com/apache/curator/blob/master/curator-recipes/src/main/java/org/apache/curator/framework/recipes/locks/LockInternals.java}
 */
import { abortable, type Clock, pause } from "../core/time/clock.ts";
import type { LockMode, WaitInfo } from "../core/contract/distributed_lock.ts";
import type { LeaseLostReason } from "../core/contract/errors.ts";
import { makeOwnerId } from "../core/contract/options.ts";
import {
  type LeaseActions,
  refusedRelease,
  type ReleaseAnswer,
  type RenewAnswer,
} from "../core/lease/grant.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import { callSignal } from "../core/time/abort_watch.ts";
import { OutageBudget, type OutageTerms, RETRY_MS } from "../core/time/outage_budget.ts";
import { classifyFailure, hasCode, ZooKeeperError } from "./connection/failures.ts";
import type { Znode } from "./connection/wire.ts";
import type { IdleLocks } from "./idle_locks.ts";
import { OwnZnode, ownZnodeGone } from "./recipe/own_znode.ts";
import { isInRange, QueueView } from "./recipe/queue_order.ts";
import { SharedQueue } from "./recipe/shared_queue.ts";
import { Waiter } from "./recipe/waiter.ts";
import type { ChangeListener } from "./session/session.ts";
import type { Sessions } from "./session/sessions.ts";

const UTF8 = new TextEncoder();
const NOTHING_READ = Promise.resolve(null);

/** What the calls of a strategy instance share. */
export interface CallContext {
  readonly engine: LeaseEngine;
  readonly sessions: Sessions;
  /** The queues in which the instance has znodes at this time. */
  readonly queues: Map<string, SharedQueue>;
  readonly idleLocks: IdleLocks;
  /** Aborts at disposal. */
  readonly ended: AbortSignal;
  /** How long a call keeps trying, from its first request without an answer. */
  readonly outage: OutageTerms;
}

export interface AcquisitionTerms
  extends Pick<CallOptions, "call" | "maxHoldMs" | "onWait" | "signal"> {
  readonly name: string;
  readonly lockPath: string;
  readonly mode: LockMode;
  /** Whether it does not wait for a holder: a `tryAcquire()` without `waitMs`, or any call with `waitMs: 0`. */
  readonly isTry: boolean;
  /** The data of our znode, and the beginning of the owner id. */
  readonly label: string;
  /** How long in ms an outage may last, unless the instance allows less. */
  readonly withinMs: number;
}

/** One call, and the lease that it gets. */
export class Acquisition implements LeaseActions, ChangeListener {
  readonly #context: CallContext;
  readonly #terms: AcquisitionTerms;
  readonly #clock: Clock;
  /** Aborts with the caller's signal, at the end of `waitMs`, and at disposal. */
  readonly #signal: ReturnType<typeof callSignal>;
  readonly #budget: OutageBudget;
  /** Whether it has one of the 128 places of step 1. */
  #isAdmitted = false;
  /** The last position that `onWait` got: 0 before the first one. A try has none. */
  #lastPosition: number | undefined = 0;
  /** Our znode, once the lock is granted. */
  #heldZnode: OwnZnode | null = null;
  /** The lease; `null` before and after. */
  #lease: ManagedLease | null = null;
  #cancelFirstWatch: (() => void) | null = null;
  /** The delete that is under way or was answered; `null` before it, and after one without an answer. */
  #releasing: Promise<ReleaseAnswer> | null = null;

  constructor(context: CallContext, terms: AcquisitionTerms) {
    this.#context = context;
    this.#terms = terms;
    this.#clock = context.engine.clock;
    const { outage, ended } = context;
    this.#signal = callSignal(terms.signal, ended);
    this.#budget = new OutageBudget(outage, terms.name, this.#signal.signal, terms.withinMs);
  }

  /**
   * Acquires the lock, in this session or in the next one. Must be called, and once.
   *
   * @returns The lease; `null` only for a try, if the lock is held.
   * @throws {LockUnavailableError} If an outage lasts too long.
   * @throws {LockSetupError} If ZooKeeper refuses, and will refuse again.
   */
  async acquire(): Promise<ManagedLease | null> {
    const { engine: { background }, sessions, queues } = this.#context;
    const { name, lockPath, label, mode, isTry } = this.#terms;
    background.enter(); // disposal waits for this call, which may have to delete its znode
    try {
      let znode: OwnZnode | null = null;
      for (;;) {
        try {
          if (!this.#isAdmitted) {
            const turn = sessions.admit(this.#budget.signal);
            if (turn === null) this.#isAdmitted = true;
            else await this.#waitInLine(turn);
          }
          // A new session ends an outage here; a live one does not: it may have no connection.
          const session = sessions.live() ?? await sessions.within(this.#budget);
          const queue = SharedQueue.use(queues, session, name, lockPath);
          znode = new OwnZnode(queue, UTF8.encode(label), isTry, mode);
          const seen = await this.#enter(znode);
          this.#admitNext();
          if (!isTry) await this.#waitForTurn(znode, seen);
          else if (!await this.#tryWin(znode, seen as QueueView)) break;
          return await this.#openLease(znode);
        } catch (error) {
          if (znode !== null) this.#deleteInBackground(znode);
          znode = null;
          await this.#budget.recover(error);
        }
      }
      return await this.#leave(znode);
    } finally {
      if (this.#isAdmitted) this.#admitNext();
      this.#signal.end();
      background.exit();
    }
  }

  // Entering the queue, and waiting in it.

  /** Waiting in line is no outage while the others are answered. */
  async #waitInLine(turn: Promise<void>): Promise<void> {
    const { sessions } = this.#context;
    const startMs = this.#clock.now();
    await turn;
    this.#isAdmitted = true;
    this.#budget.beganAt(Math.max(startMs, sessions.lastAnswerMs));
    this.#budget.check();
  }

  #admitNext(): void {
    this.#isAdmitted = false;
    this.#context.sessions.entered();
  }

  /**
   * Creates our znode, and in the first call of a session the znode of its heartbeats. A session's requests are
   * executed in order, so what is read in the same tick takes account of our znode.
   *
   * @returns A listing. For an `acquire()` behind others of this instance `null`; with an `onWait` the lock's
   * znode, which tells the position, or a listing for a shared call behind few others.
   */
  async #enter(znode: OwnZnode): Promise<QueueView | Znode | null> {
    const { session, queue } = znode;
    const { isTry, mode, onWait } = this.#terms;
    const budget = this.#budget;
    // A shared call may be granted the lock together with those ahead: behind few it looks before it reports.
    const looks = mode === "shared" && onWait !== undefined && queue.isShort;
    const lists = isTry || !queue.hasOthersAhead || looks;
    const isSilent = !lists && onWait === undefined;
    if (!isTry) queue.entering++;
    try {
      for (;;) {
        const preparing = session.prepareHeartbeat();
        const creating = znode.create();
        let reading: Promise<QueueView | Znode | null> = NOTHING_READ;
        if (lists) reading = queue.list();
        else if (!isSilent) reading = queue.size();
        reading.catch(() => {}); // If the create fails, only its error counts.
        try {
          // If `preparing` fails in an outage, it is tried again before a lease is granted.
          const entered = creating.then(() => preparing?.catch(throwIfRefused)).then(() => reading);
          const seen = await budget.settle(entered);
          budget.answered();
          return seen;
        } catch (error) {
          if (!znode.isCreated) await this.#recoverCreate(znode, error);
          else if (classifyFailure(error).kind !== "retry") throw error;
          else await budget.recover(error);
        }
        if (!znode.isCreated) continue;
        const read = () => lists ? queue.list() : queue.size();
        return isSilent ? null : await session.ask<QueueView | Znode | null>(budget, read);
      }
    } finally {
      if (!isTry) queue.entering--;
    }
  }

  /** Recovers from a failed create, or throws its error. Then `isCreated` tells whether it must be sent again. */
  async #recoverCreate(znode: OwnZnode, error: unknown): Promise<void> {
    const { session, queue } = znode;
    const budget = this.#budget;
    if (hasCode(error, "NO_NODE")) {
      budget.answered();
      return await budget.settle(session.makePath(queue.path))
        .catch((error) => budget.recover(error));
    }
    if (!znode.isCreateAmbiguous) throw error;
    budget.judge(error);
    await session.ask(budget, () => znode.resolveAmbiguousCreate());
  }

  /** Waits until our znode has no blockers. `seen` is what `#enter()` has read. */
  async #waitForTurn(znode: OwnZnode, seen: QueueView | Znode | null): Promise<void> {
    if (seen instanceof QueueView) {
      const { ahead, blockers, turn, waiterCount } = znode.positionIn(seen);
      if (ahead === 0) znode.queue.recordFirst(znode);
      if (blockers === 0) return;
      this.#report({ position: turn, waiters: waiterCount });
    } else if (!isInRange(znode.sequence)) throw znode.outOfNumbers();
    else if (seen !== null) {
      // So many were created after our znode. They are behind it, unless they were deleted.
      const behind = seen.createCount - 1 - znode.sequence;
      const waiters = Math.max(1, seen.childCount - (znode.queue.latest?.holderCount || 1));
      this.#report({ position: Math.max(1, waiters - behind), waiters });
    }
    const waiter = new Waiter(znode, this.#clock, this.#budget);
    await waiter.untilFree((info) => this.#report(info));
  }

  /**
   * If all blockers are `tryAcquire()` znodes, the first of them either holds the lock or is about to be deleted.
   * Its age decides: a failed one is deleted at once, so one older than 100 ms is taken for the holder's.
   */
  async #tryWin(znode: OwnZnode, seen: QueueView): Promise<boolean> {
    const enteredMs = this.#clock.now();
    const waiter = new Waiter(znode, this.#clock, this.#budget);
    for (let view = seen;; view = await waiter.list()) {
      const { ahead, blockers, firstBlocker, isBehindTriesOnly, waiterCount } = znode.positionIn(
        view,
      );
      if (ahead === 0) znode.queue.recordFirst(znode);
      if (blockers === 0) return true;
      if (isBehindTriesOnly && await waiter.changesInTime(firstBlocker, enteredMs)) continue;
      this.#report({ waiters: waiterCount - 1 });
      return false;
    }
  }

  #report(info: WaitInfo): void {
    if (info.position !== this.#lastPosition) this.#terms.onWait?.(info);
    this.#lastPosition = info.position;
  }

  // The lease: granted, held, and lost.

  async #openLease(znode: OwnZnode): Promise<ManagedLease> {
    const { name, label, maxHoldMs, call } = this.#terms;
    const { session } = znode;
    const budget = this.#budget;
    // Sends nothing while the watch is set. A watch is lost with its connection: then nothing tells us that
    // our znode was deleted and another client was granted the lock.
    const watch = () => session.ask(budget, () => znode.watch());
    if (znode.fencingToken === null) await watch();
    if (session.prepareHeartbeat() !== null) {
      await budget.ask(async () => void await session.prepareHeartbeat());
      await watch();
    }
    // A waiter sends no writes, so after a long wait the proof may be old. The write comes
    // before the read: then a server that lags behind the ensemble knows of a delete.
    const sinceMs = this.#clock.now();
    while (!session.isProvenRecently) {
      await budget.ask(() => session.sendHeartbeat());
      await watch();
      if (session.isProvenRecently) break;
      // Answers that always come too late prove too little, and our znode keeps all others out.
      if (this.#clock.now() - sinceMs >= session.timeoutMs) {
        const message = "each heartbeat was answered too late for a lease";
        throw budget.unavailable(new ZooKeeperError("TIMEOUT", message));
      }
      await pause(this.#clock, session.timeoutMs / 20, budget.signal);
    }
    budget.signal.throwIfAborted();
    if (znode.watchState === "deleted") throw ownZnodeGone();
    this.#heldZnode = znode;
    const lease = this.#context.engine.open({
      name,
      ownerId: makeOwnerId(label),
      mode: znode.mode,
      fencingToken: znode.fencingToken!,
      sent: session.proof.sent,
      ttlMs: session.timeoutMs,
      validMs: session.proof.validMs,
      autoRenew: true,
      watchEveryMs: session.heartbeatEveryMs,
      maxHoldMs,
      call,
    }, this);
    if (lease === null) return await this.#openLease(znode); // the process was suspended in this very moment
    this.#lease = lease;
    znode.listener = this;
    session.listen(this);
    if (znode.watchState !== "set") {
      // Most locks are released sooner than that, and so never need this request.
      this.#cancelFirstWatch = this.#clock.schedule(
        () => this.onChange(),
        session.timeoutMs / 10,
      );
    }
    return lease;
  }

  async renew(): Promise<RenewAnswer> {
    const { session } = this.#heldZnode!;
    const askedMs = this.#clock.now();
    this.onChange();
    try {
      await session.sendHeartbeat();
      // The session may be proven by a write that was sent before this call.
      const { sent, validMs } = session.proof;
      return { state: "held", validMs: sent.nowMs + validMs - askedMs };
    } catch (cause) {
      return { state: "unknown", cause };
    }
  }

  lapsed(cause: unknown): LeaseLostReason {
    this.#heldZnode!.session.lose(false, cause);
    return "session-expired";
  }

  /** Sets the watch of our znode, unless it is set. The lease is lost if the znode is deleted. Never rejects. */
  async onChange(): Promise<void> {
    const znode = this.#heldZnode!;
    // If this fails, the next heartbeat or connection tries again.
    if (znode.watchState === "unset") await znode.watch().catch(() => {});
    if (znode.watchState === "deleted") this.#lease?.lose("stolen");
  }

  // The end: our znode is deleted.

  release(): Promise<ReleaseAnswer> {
    const isFirst = this.#lease !== null;
    this.#cancelFirstWatch?.();
    this.#heldZnode!.session.unlisten(this);
    this.#lease = null;
    // A second attempt waits for the first: its delete may be behind many requests, or it waits for a connection.
    return this.#releasing ??= this.#release(this.#heldZnode!, isFirst);
  }

  async #release(znode: OwnZnode, isFirst: boolean): Promise<ReleaseAnswer> {
    // The first one leaves the queue at once. The engine pauses before the next one, so here the delete directly
    // follows the wait for a connection: that may be lost again sooner than any pause ends.
    if (!isFirst && !await this.#reconnected()) return { state: "unknown", cause: undefined };
    const answer = await this.#delete(znode);
    // Once our znode is deleted, nothing is sent again, even if the answer came after the first attempt was over.
    if (answer.state === "unknown") this.#releasing = null;
    return answer;
  }

  /** Leaves the queue without the lock. Without an answer, or after an abort, that goes on in the background. */
  async #leave(znode: OwnZnode): Promise<null> {
    const deleting = this.#delete(znode);
    const answer = await this.#budget.settle(deleting).catch(() => null);
    if (answer?.state === "refused") throw refusedRelease(this.#terms.name, answer);
    if (answer === null || answer.state === "unknown") this.#deleteInBackground(znode, deleting);
    return null;
  }

  /** Makes one attempt. Never rejects. */
  #delete(znode: OwnZnode): Promise<ReleaseAnswer> {
    const { idleLocks, sessions } = this.#context;
    idleLocks.recordRelease(this.#terms.lockPath);
    return znode.delete(sessions);
  }

  /** Tries in the background to delete a znode of ours, until the outcome is known or the engine is closed. */
  #deleteInBackground(znode: OwnZnode, deleting = this.#delete(znode)): void {
    const { background, stopped } = this.#context.engine;
    background.run(async () => {
      while ((await deleting).state === "unknown") {
        await pause(this.#clock, RETRY_MS, stopped);
        if (!await this.#reconnected()) return;
        deleting = this.#delete(znode);
      }
    });
  }

  /**
   * Waits until a delete can be sent again: thousands of calls that try again and again without a connection
   * would keep the process busy. If the latest session is over, the delete opens the next one.
   *
   * @returns Whether it may be sent: not when the engine is closed.
   */
  async #reconnected(): Promise<boolean> {
    const { engine: { stopped }, sessions } = this.#context;
    await abortable(sessions.latest!.reconnected(), stopped).catch(() => {});
    return !stopped.aborted;
  }
}

function throwIfRefused(error: unknown): void {
  if (classifyFailure(error).kind === "refused") throw error;
}
