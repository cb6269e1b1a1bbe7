/**
 * The life of one call, in the words of `docs/redis-protocol.md`. Invariants are those of `docs/design.md`.
 *
 * 1. The call _asks_: to _wait_ or _try_ (both also take over what its owner id holds), to _attach_ (only that), or
 *    to _steal_ (from the holder that `redis_lock.ts` has read, or a lock that is free by now). It asks as soon as
 *    there is a slot and, under a chosen owner id, earlier calls have cleaned up. An ask whose error comes back is
 *    sent again, one without an answer is waited for, until the outage budget is used up or no retry can help. The
 *    answer says: granted; queued; held, or to an attach perhaps free (the call ends without a lease); late (this copy
 *    did nothing: the call asks again, and fails at the 8th in a row unless it has been queued); searching (one ask
 *    looks at 64 waiters or inboxes: the call asks again); or ended (a tombstone refuses it, and it fails).
 * 2. _Queued_, the call waits for a grant message in its instance's inbox, which the first such answer opens. The
 *    foremost waiter of the instance asks again for all, with its ticket: once the inbox is open; at intervals, which
 *    also shows that its process lives; when the holder's TTL is over, since Redis tells nobody that a lock has
 *    expired; and when messages may be lost. A wait or try that finds the lock free grants it to the first reachable
 *    waiter in the queue, whoever sent it. All ask, within a second, if one gives up in an outage, or if an answer,
 *    "queued" to the foremost or any "granted", says that the server does not know them all; where shares are wanted,
 *    if a second look says so, too.
 * 3. _Granted_ by a message, it holds the lock for a claim of 3 s at most; a process that lets an exclusive one lapse
 *    is skipped until it asks again. If more than half of the claim is left, an automatically renewed lease opens
 *    without a round trip, and its first renewal makes the claim a whole TTL. Otherwise the call asks once more, for a
 *    whole TTL. If the message is lost, the foremost waiter's next answer is the grant, or names the waiter here that
 *    has got the lock, which then asks; a lost share shows in the number of waiters that the server knows.
 * 4. The _lease_ counts from when the granted ask was sent; after a message, from the earliest possible moment of the
 *    grant. The lease engine renews it and decides when it is lost, or unproven (`core/lease/lease.ts`). What ends it
 *    at once: a later grant of its lock on the same client, unless both are shared; the message "stolen"; and, of an
 *    exclusive one, the answer "queued" or "held" to a later call of its owner id on its instance, except "held" to a
 *    steal. A victim that no message reaches finds out by its next renewal, or at its deadline.
 * 5. A _release_ is a `leave`, sent until it is answered or the TTL is over: the next waiters that may hold the lock
 *    get it (`handoff: false`: the first is told that it is free, and asks). The engine releases a lost lease, too.
 * 6. A call that ends without a lease _cleans up_ in the background: it waits for the answers to its asks, and leaves
 *    if the server may know the call, or may still execute a copy of an ask; a lock that an attach, or a lease of its
 *    owner id here, may need stays held. Against such a copy this leave, and that of a release, writes a tombstone.
 *
 * Below this page: which waiter asks when, the inbox, and grants to calls that have ended, in `waiting/`; the commands
 * in `protocol/`; leases by lock in `held_leases.ts`; who may call under which owner id in `owner_calls.ts`. Disposal
 * is in `redis_lock.ts`, which also repeats a steal, and `core/lease/lease_engine.ts`; the budget in `core/time/`.
 *
 * @module
 */
import { abortable, deadlineMs, type Instant, pause } from "../core/time/clock.ts";
import type { LockMode, WaitInfo } from "../core/contract/distributed_lock.ts";
import { LockError, LockSetupError, LockUnavailableError } from "../core/contract/errors.ts";
import {
  type LeaseActions,
  type LeaseRequest,
  type ReleaseAnswer,
  type RenewAnswer,
  UNSENT,
} from "../core/lease/grant.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { LeaseEngine } from "../core/lease/lease_engine.ts";
import { type CallOptions, outside } from "../core/lease/tracing.ts";
import { type OutageBudget, type OutageTerms, RETRY_MS } from "../core/time/outage_budget.ts";
import type { HeldLeases, Holder } from "./held_leases.ts";
import type { OwnerCall } from "./owner_calls.ts";
import {
  type Ask,
  ASK_LIFE_MS,
  type AskAnswer,
  type Queued,
  TOMBSTONE_MS,
} from "./protocol/wire.ts";
import type { AskTurn, CommandWindow } from "./protocol/command_window.ts";
import type { RedisCommands } from "./protocol/commands.ts";
import { refusalOf, refusedForGood } from "./protocol/failures.ts";
import { hasSameOwnerId, type LockKeys } from "./protocol/keys.ts";
import type { InboxMessage } from "./protocol/messages.ts";
import { type AskSent, claimStartMs } from "./protocol/server_clocks.ts";
import type { Waiters } from "./waiting/waiters.ts";
import type { Waiter } from "./waiting/waiting_room.ts";

/** Longest pause in ms before an ask that came too late, or a clean-up, is sent again. */
const MAX_RETRY_MS = 1_000;
/** After how many asks in a row that came too late a call gives up, unless it has a ticket. */
const MAX_LATE_ASKS = 8;
/** Like {@linkcode TOMBSTONE_MS}, for asks without a last moment: the server may execute them late. */
const LONG_TOMBSTONE_MS = 30_000;

/** What all calls of one `RedisLock` share. */
export interface CallContext {
  readonly engine: LeaseEngine;
  readonly commands: RedisCommands;
  readonly waiters: Waiters;
  readonly held: HeldLeases;
  readonly ended: AbortSignal;
  readonly outage: OutageTerms;
}

export interface AcquisitionTerms
  extends
    Pick<CallOptions, "call" | "maxHoldMs" | "onWait" | "signal">,
    Omit<Ask, "inbox" | "ticket" | "isWanted"> {
  readonly name: string;
  readonly ownerId: string;
  readonly leaseMode: LockMode;
  readonly autoRenew: boolean;
  readonly outlivesDisposal: boolean;
}

/**
 * One call. Its phase changes by these events; in any other phase an event does not change it:
 *
 * | event                            | from                    | to                                 |
 * | -------------------------------- | ----------------------- | ---------------------------------- |
 * | an ask is sent                   | asking                  | asking (valid)                     |
 * | the answer "queued"              | asking (valid)          | queued                             |
 * | an ask is due, or "free"         | asking (valid), queued  | asking (outdated)                  |
 * | a grant message                  | asking, queued, granted | granted: the latest message counts |
 * | the call has looked at its grant | granted                 | asking                             |
 * | the message "stolen"             | asking, queued, granted | asking (void)                      |
 * | a lease is opened, or "held"     | asking                  | over                               |
 *
 * In brackets is what the answer to the current ask is worth: _outdated_, after "queued" another ask must follow;
 * _void_, it decides nothing: a grant in it was stolen. Nor does an answer that a grant message has overtaken. In
 * any phase an abort, disposal, a final failure or, unless it is one itself, an attach of its owner id ends the call.
 */
export class Acquisition implements Waiter, Holder, Ask, OwnerCall, LeaseActions {
  readonly keys: LockKeys;
  readonly value: string;
  readonly ttlMs: number;
  readonly mode: Ask["mode"];
  readonly leaseMode: LockMode;
  readonly limit: number | null;
  readonly victimDigest: string;
  readonly inbox: Ask["inbox"];
  ticket = 0;
  ownerTurn: OwnerCall["ownerTurn"] = null;
  readonly #context: CallContext;
  readonly #terms: AcquisitionTerms;
  readonly #budget: OutageBudget;
  #phase: "asking" | "queued" | "granted" | "over" = "asking";
  #answerWorth: "valid" | "outdated" | "void" = "valid";
  /** The last grant message, and when it was received, in monotonic ms. */
  #grant: { message: Extract<InboxMessage, { kind: "grant" }>; receivedMs: number } | null = null;
  #lease: ManagedLease | null = null;
  /** Why another call has ended this one. */
  #endedBy: LockError | null = null;
  /** Ends the current wait of the call, which then acts on its phase. */
  #wake: ((value: void) => void) | null = null;
  /** Ends the wait for the answer to the current ask, when the budget is used up. */
  #fail: ((error: unknown) => void) | null = null;
  /** Must be called when the call no longer waits for the answer to its current ask. */
  #endTimer: ((hasFailed: boolean) => void) | null = null;
  #lastReport: WaitInfo = {};
  #lateAsks = 0;
  /** The first ask and the last one. */
  #firstSent: AskSent | null = null;
  #sent: AskSent | null = null;
  /** Whether the server may know the call as the holder or as a waiter. */
  #isKnown = false;
  /** Whether the server may still execute a copy of an ask. */
  #isUnclean = false;
  /** Whether such a copy has no last moment: it was sent before the server's clock was known. */
  #isUndated = false;
  #unanswered = 0;
  /** Resolves when no ask is unanswered; `null` unless somebody waits for it. */
  #whenAnswered: PromiseWithResolvers<void> | null = null;
  /** Whether the leave at a clean-up or after a loss keeps the lock for the owner id. */
  #keepsLock = false;
  /** Whether a release was sent before: then the engine itself takes "gone" for released. */
  #isReleaseRepeated = false;
  #cleaning: Promise<void> | null = null;

  constructor(context: CallContext, terms: AcquisitionTerms, budget: OutageBudget) {
    this.#context = context;
    this.#terms = terms;
    this.#budget = budget;
    this.keys = terms.keys;
    this.value = terms.value;
    this.ttlMs = terms.ttlMs;
    this.mode = terms.mode;
    this.leaseMode = terms.leaseMode;
    this.limit = terms.limit;
    this.victimDigest = terms.victimDigest;
    this.inbox = context.waiters.inbox;
  }

  /** Resolves with the lease, or with `null` if the call does not wait and is refused. */
  async run(): Promise<ManagedLease | null> {
    const { engine: { background }, waiters } = this.#context;
    const { signal } = this.#terms;
    background.enter(); // disposal waits for the clean-up
    waiters.add(this, signal);
    try {
      if (this.ownerTurn !== null) await this.#waitForEarlier(this.ownerTurn.earlier);
      while (this.#phase !== "over") {
        this.#throwIfEnded();
        if (this.#phase === "asking") await this.#ask();
        else if (this.#phase === "queued") await new Promise<void>((wake) => this.#wake = wake);
        else this.#accept();
      }
      return this.#lease;
    } catch (error) {
      // The other waiters of the lock ask, too: each fails only by its own ask.
      if (error instanceof LockUnavailableError || error instanceof LockSetupError) {
        waiters.reportOutage(this);
      }
      throw error;
    } finally {
      this.#phase = "over";
      waiters.remove(this, signal);
      if (this.#lease === null) this.#cleanUp();
      this.ownerTurn?.end();
      background.exit();
    }
  }

  get isWanted(): boolean {
    if (this.#phase === "over" || this.#endedBy !== null) return false;
    return !this.#terms.signal?.aborted && !this.#context.ended.aborted;
  }

  #throwIfEnded(): void {
    if (this.#endedBy !== null) throw this.#endedBy;
    this.#terms.signal?.throwIfAborted();
    this.#context.ended.throwIfAborted();
  }

  // Asking: one ask at a time, so that an offline client's queue cannot grow; except after an unused grant message.

  async #ask(): Promise<void> {
    const window = this.#context.commands.windowOf(this.keys.lock);
    const turn = window.take() ? null : window.askTurn(this.#budget.outageSinceMs);
    // One wait for the slot and the answer: no event is missed between them.
    const { promise, resolve, reject } = Promise.withResolvers<AskAnswer | void>();
    this.#wake = resolve;
    this.#fail = reject;
    let answer: AskAnswer | void;
    try {
      // The trace of a call shows its first ask, and no other unless that was late.
      const answering = this.#firstSent !== null && this.#terms.call !== undefined
        ? outside(() => this.#sendInTurn(window, turn))
        : turn === null
        ? this.#send(window)
        : this.#sendInTurn(window, turn);
      answering.then(resolve, reject);
      answer = await promise;
    } catch (error) {
      this.#throwIfEnded();
      this.#budget.judge(error);
      return await this.#pause(RETRY_MS);
    } finally {
      this.#endTimer?.(false);
      if (turn !== null) window.withdraw(turn);
    }
    this.#throwIfEnded();
    if (answer === undefined || this.#phase !== "asking" || this.#answerWorth === "void") return;
    if (answer.state !== "late") return this.#onAnswer(answer, this.#sent!);
    if (this.ticket === 0 && this.#lateAsks >= MAX_LATE_ASKS) {
      const late = `${MAX_LATE_ASKS} requests took over ${ASK_LIFE_MS} ms to reach the server`;
      throw this.#budget.unavailable(new Error(`Each of the last ${late}`));
    }
    await this.#pause(Math.min(RETRY_MS * 2 ** (this.#lateAsks - 1), MAX_RETRY_MS));
  }

  async #sendInTurn(window: CommandWindow, turn: AskTurn | null): Promise<AskAnswer | void> {
    if (turn === null) return await this.#send(window);
    await turn.come;
    if (this.isWanted && this.#phase === "asking" && turn.take()) return await this.#send(window);
  }

  /** Sends an ask that has a slot. Notes what the clean-up must know, however late the answer comes. */
  #send(window: CommandWindow): Promise<AskAnswer> {
    const { engine: { clock }, commands } = this.#context;
    const { client } = commands;
    const sent: AskSent = { nowMs: clock.now(), wallMs: clock.wall(), epoch: client.epoch };
    const offsetMs = commands.clocks.offsetMs(this.keys.lock);
    // In ms of the server's clock: later the ask does nothing. 0 while that clock is unknown.
    const lastMomentMs = offsetMs === null ? 0 : Math.round(sent.nowMs + offsetMs + ASK_LIFE_MS);
    this.#sent = sent;
    this.#firstSent ??= sent;
    if (lastMomentMs === 0) this.#isUndated = true;
    this.#unanswered++;
    this.#answerWorth = "valid"; // the answer knows of everything that happened before
    const endTimer = this.#endTimer = this.#budget.timeAnswer(this.#fail!);
    return commands.ask(this, window, sent, lastMomentMs).then((answer) => {
      endTimer(false);
      if (--this.#unanswered === 0) this.#whenAnswered?.resolve();
      if (sent.epoch !== client.epoch) this.#isUnclean = true;
      else if (lastMomentMs === 0 && !this.#isUnclean) this.#isUndated = this.#unanswered > 0;
      this.#learn(answer);
      return answer.state === "late" ? this.#onLate(answer, window, sent) : answer;
    }, (error) => {
      endTimer(true);
      // Only a refusal proves that the ask was not executed.
      if (refusalOf(error) === null || sent.epoch !== client.epoch) this.#isUnclean = true;
      if (--this.#unanswered === 0) this.#whenAnswered?.resolve();
      throw error;
    });
  }

  /** Notes what an answer says about the call, and about earlier leases, even if the call has ended. */
  #learn(answer: AskAnswer): void {
    const { held, waiters } = this.#context;
    const { ownerId } = this.#terms;
    const { lock } = this.keys;
    const { state } = answer;
    // A steal is also refused if another call of its owner id holds the lock.
    const isDenied = state === "queued" || (state === "held" && this.mode !== "steal");
    if (state === "granted" || state === "queued" || state === "searching") this.#isKnown = true;
    if (this.#lease === null && isDenied) {
      held.onDenied(lock, ownerId);
      this.#keepsLock = this.#endedBy !== null;
    }
    if (state !== "granted") return;
    // `onGrant()` ends an earlier lease of this owner id: then a clean-up must not free the lock.
    if (this.#lease === null && held.isHeldUnder(lock, ownerId)) this.#keepsLock = true;
    held.onGrant(lock, this, answer.fencingToken);
    if (this.mode !== "steal") waiters.onAnsweredGrant(this, answer.otherWaiters);
  }

  #onAnswer(answer: AskAnswer, sent: AskSent): Promise<void> | void {
    // A grant may be too late for a lease: it does not end the outage, or the call would ask forever.
    if (answer.state !== "granted") this.#budget.answered();
    this.#lateAsks = 0;
    switch (answer.state) {
      case "granted":
        this.#open(sent, sent.nowMs, answer.validMs, answer.fencingToken);
        return this.#lease === null ? this.#onUnusedGrant(answer.fencingToken) : undefined;
      case "queued":
        return this.#enqueue(answer, sent);
      case "held":
        if (this.mode === "try") {
          this.#terms.onWait?.({ waiters: answer.waiters, ...remaining(answer.leftMs) });
        }
        return this.#enter("over");
      case "ended":
        throw new LockError(
          `Cannot acquire lock ${JSON.stringify(this.#terms.name)}: the call has left it`,
          this.#terms.name,
        );
      default: // "searching": it asks again
    }
  }

  /**
   * "late" is an answer, so this is no outage. The first time the call keeps its slot and asks again at once, before
   * later calls, unless it has sent another ask since. Otherwise it pauses: asks do not help a server that is behind.
   */
  #onLate(late: AskAnswer, window: CommandWindow, sent: AskSent): AskAnswer | Promise<AskAnswer> {
    this.#budget.answered();
    this.#lateAsks++;
    const asksAgain = this.#lateAsks === 1 && sent === this.#sent && this.#phase === "asking";
    if (asksAgain && this.isWanted) return this.#send(window);
    window.free(true);
    return late;
  }

  // Waiting in the queue.

  #enqueue(answer: Queued, sent: AskSent): void {
    const { position, waiters, leftMs, serverMs } = answer;
    const { onWait } = this.#terms;
    const last = this.#lastReport;
    this.ticket ||= answer.ticket;
    if (position !== last.position || waiters !== last.waiters) {
      this.#lastReport = { position, waiters, ...remaining(leftMs) };
      onWait?.(this.#lastReport);
    }
    if (this.#phase === "asking" && this.#answerWorth === "valid") this.#enter("queued");
    this.#context.waiters.enqueue(this, answer, { sent, serverMs });
  }

  /**
   * The outage began when the server fell silent, but not before this call. At least `ASK_LIFE_MS` of the budget
   * is left, so that an answer has the time to arrive.
   */
  #continueOutage(): void {
    const { engine: { clock }, commands, outage } = this.#context;
    const nowMs = clock.now();
    const silentSinceMs = commands.windowOf(this.keys.lock).silentSinceMs ?? nowMs;
    const earliestMs = nowMs - Math.max(0, outage.unavailableAfterMs - ASK_LIFE_MS);
    const firstSentMs = this.#firstSent?.nowMs ?? nowMs;
    this.#budget.beganAt(Math.max(firstSentMs, silentSinceMs, earliestMs));
  }

  async #waitForEarlier(earlier: Promise<unknown> | undefined): Promise<void> {
    if (earlier === undefined) return;
    try {
      await this.#unlessChanged(this.#budget.settle(earlier));
    } catch (error) {
      this.#throwIfEnded();
      this.#budget.judge(error);
    }
    this.#budget.answered();
  }

  /** If the call has a lease already, a grant is a duplicate. */
  onMessage(message: InboxMessage): void {
    if (message.kind === "free") return this.onAskDue();
    if (message.kind === "stolen") this.#lease?.lose("stolen");
    if (this.#phase === "over") return;
    if (message.kind === "grant") {
      this.#grant = { message, receivedMs: this.#context.engine.clock.now() };
      this.#enter("granted");
    } else { // stolen: its caller never sees an earlier grant
      this.#answerWorth = "void";
      this.#enter("asking");
    }
  }

  onAskDue(): void {
    if (this.#phase !== "queued" && (this.#phase !== "asking" || this.#answerWorth !== "valid")) {
      return;
    }
    this.#answerWorth = "outdated";
    this.#enter("asking");
  }

  /** An ask that is under way finds out for itself. */
  onOutage(): void {
    if (this.#phase !== "queued") return;
    this.#continueOutage();
    this.onAskDue();
  }

  onAborted(): void {
    this.#wake?.();
  }

  /** The clean-up keeps the lock for the attach. */
  end(error: LockError): void {
    this.#endedBy = error;
    this.#keepsLock = true;
    this.#wake?.();
  }

  #enter(phase: "asking" | "queued" | "granted" | "over"): void {
    const isOther = phase !== this.#phase;
    this.#phase = phase;
    if (isOther) this.#wake?.();
  }

  /** Waits for `answer`; resolves with `undefined` if the phase changes first, or the call ends. */
  #unlessChanged<T>(answer: Promise<T>): Promise<T | void> {
    const { promise, resolve, reject } = Promise.withResolvers<T | void>();
    this.#wake = resolve;
    answer.then(resolve, reject);
    return promise;
  }

  async #pause(delayMs: number): Promise<void> {
    await this.#unlessChanged(pause(this.#context.engine.clock, delayMs));
  }

  // The grant.

  #accept(): void {
    const { message: { serverMs, claimMs, fencingToken }, receivedMs } = this.#grant!;
    const { waiters, engine } = this.#context;
    this.#enter("asking");
    this.#isKnown = true;
    const firstSent = this.#firstSent;
    if (firstSent === null) return; // nobody can grant what nobody has asked for
    const mapping = waiters.clockMapping(this.keys);
    const startMs = claimStartMs(mapping, firstSent.nowMs, serverMs, receivedMs);
    const sent = mapping?.sent ?? firstSent;
    const leftMs = deadlineMs(startMs, claimMs, claimMs) - engine.clock.now();
    const hasTime = leftMs > claimMs / 2;
    if (this.#terms.autoRenew && hasTime) this.#open(sent, startMs, claimMs, fencingToken);
    if (this.#lease === null) waiters.dequeue(this);
  }

  /** The answer "granted" has opened no lease: the call asks again, at once unless a later grant has a lease here. */
  async #onUnusedGrant(fencingToken: bigint): Promise<void> {
    this.#context.waiters.dequeue(this);
    if (!this.#context.held.hasLater(this.keys.lock, this.leaseMode, fencingToken)) return;
    // A later grant has a lease here. If the server has lost that one, it answers the same until it ends: no outage.
    if (this.mode === "wait") this.#budget.answered();
    await this.#pause(RETRY_MS);
  }

  /**
   * Opens a lease for a grant whose `validMs` count from `startMs`. If the grant is over already or unproven, or
   * was stolen or taken over since, the call asks again as the same owner.
   */
  #open(sent: Instant, startMs: number, validMs: number, fencingToken: bigint): void {
    const { engine, held } = this.#context;
    if (held.hasLater(this.keys.lock, this.leaseMode, fencingToken)) return;
    const { name, ownerId, autoRenew, maxHoldMs, outlivesDisposal, call } = this.#terms;
    const lease = engine.open({
      name,
      ownerId,
      mode: this.leaseMode,
      fencingToken,
      sent,
      startMs,
      ttlMs: this.ttlMs,
      validMs,
      autoRenew,
      maxHoldMs,
      outlivesDisposal,
      call,
    }, this);
    if (lease === null) return this.#budget.check();
    this.#lease = lease;
    this.#keepsLock = false;
    // An earlier call of this id asked for longer: believed, for the answer came within the TTL of this call.
    const keepsLonger = outlivesDisposal || !autoRenew;
    if (keepsLonger && validMs > this.ttlMs) lease.extend(sent, validMs, validMs);
    held.add(this.keys.lock, this, lease);
    this.#enter("over");
  }

  onLaterGrant(value: string): void {
    // A late copy of our ask may take the lock back from that call. Then our leave must not free it.
    if (hasSameOwnerId(value, this.value)) this.#keepsLock = true;
    this.#lease?.lose("stolen");
  }

  renew(ttlMs: number, request: LeaseRequest): Promise<RenewAnswer> {
    return this.#context.commands.renew(this.keys, this.value, ttlMs, request);
  }

  /** A first release that is answered "gone" is "unknown" if an earlier copy of it may have released the lock. */
  release(isLost: boolean, request: LeaseRequest): Promise<ReleaseAnswer> {
    const { commands, engine: { clock }, held, waiters } = this.#context;
    const { lock } = this.keys;
    const { epoch } = commands.client;
    const isRepeated = this.#isReleaseRepeated;
    this.#isReleaseRepeated = true;
    const tombstoneMs = this.#tombstoneMs(epoch);
    const sentMs = clock.now();
    const keepsLock = isLost && this.#keepsLock;
    if (keepsLock && tombstoneMs === 0) { // a leave would change nothing
      held.remove(lock, this.value);
      return Promise.resolve({ state: "gone", reason: "stolen" });
    }
    const left = commands.leave(this.keys, this.value, tombstoneMs, keepsLock, request);
    return left.then((leave) => {
      // Not before: an answer that names this holder until then would be taken for a lost grant.
      held.remove(lock, this.value);
      if (leave.answer.state !== "gone") return leave.answer;
      waiters.askNow(lock); // the foremost one: the queue may be lost, too
      if (isRepeated) return leave.answer;
      // The tombstone of an earlier copy tells that it was executed, as long as it lasts.
      const isUncertain = tombstoneMs === 0
        ? commands.client.epoch !== epoch
        : leave.hasLeftBefore || clock.now() - sentMs >= tombstoneMs;
      if (!isUncertain) return leave.answer;
      return { state: "unknown", cause: new Error("The client may have sent the release twice") };
    }, (cause) => {
      held.remove(lock, this.value);
      if (cause === UNSENT) this.#isReleaseRepeated = isRepeated;
      return refusedForGood(cause) ?? { state: "unknown", cause, isUnexecuted: cause === UNSENT };
    });
  }

  /** How long in ms a leave must refuse asks of this call; 0 if no ask can follow it. */
  #tombstoneMs(epoch: number): number {
    const isUnclean = this.#isUnclean || this.#unanswered > 0;
    if (!isUnclean && epoch === this.#firstSent?.epoch) return 0;
    return this.#isUndated ? LONG_TOMBSTONE_MS : TOMBSTONE_MS;
  }

  // The clean-up of a call without a lease (item 6; invariant 4).

  #cleanUp(): void {
    if (!this.#isKnown && !this.#isUnclean && this.#unanswered === 0) return;
    this.#cleaning = this.#context.engine.background.run(() => this.#leaveAtLast());
  }

  /** Leaves until the server has answered, or a lock that was not taken over must have expired there. */
  async #leaveAtLast(): Promise<void> {
    const { engine: { clock, stopped }, commands, held } = this.#context;
    const { ownerId, outlivesDisposal } = this.#terms;
    // The answers tell whether to leave. Before them it would only lengthen the queue of an offline client.
    await abortable(this.#answered(), stopped);
    if (!this.#isKnown && !this.#isUnclean) return;
    const untilMs = clock.now() + this.ttlMs + TOMBSTONE_MS;
    for (let delayMs = RETRY_MS; !stopped.aborted && clock.now() < untilMs; delayMs *= 2) {
      // The lock may have been taken over from an earlier lease of the owner id.
      const keepsLock = this.#keepsLock || this.mode === "attach" ||
        (outlivesDisposal && this.ownerTurn !== null) || // an id that we made has no earlier lease
        held.isHeldUnder(this.keys.lock, ownerId);
      const tombstoneMs = this.#tombstoneMs(commands.client.epoch);
      try {
        return void await commands.leave(this.keys, this.value, tombstoneMs, keepsLock);
      } catch (error) {
        if (refusedForGood(error) !== null) return;
      }
      // Disposal ends the pause by closing the clock: thousands of listeners on a signal are slow.
      await pause(clock, Math.min(delayMs, MAX_RETRY_MS));
    }
  }

  #answered(): Promise<void> {
    if (this.#unanswered === 0) return Promise.resolve();
    return (this.#whenAnswered ??= Promise.withResolvers()).promise;
  }

  async quiet(): Promise<void> {
    await this.#answered();
    await this.#cleaning;
  }
}

function remaining(leftMs: number): Pick<WaitInfo, "remainingMs"> {
  return leftMs < 0 ? {} : { remainingMs: leftMs };
}
