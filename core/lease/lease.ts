/**
 * The life of one lease: its deadline, renewal, loss and release. `lease_engine.ts` opens it, if its grant is not
 * too old. It is _held_ until its deadline, which confirmed renewals move to later, or until `maxHoldMs` is over or
 * the service or the strategy says that it is gone. Then it is _lost_, and released in the background until an
 * answer, for as long as the service may keep the lock. If a read of the lease finds that the process was suspended
 * since the request was sent whose answer set the deadline, it is _unproven_: its holder must not rely on it. A
 * renewal that is sent afterwards asks the service; its answer sets the deadline, even to an earlier one.
 *
 * `release()` makes it _releasing_: a renewal that was sent is awaited, then the release is sent until the service
 * answers. With the answer, or at the deadline, it is _released_, for good; without an answer a clean-up goes on in
 * the background. If the service refuses, `release()` rejects, and the lock stays held. (In this code both states
 * are `"released"`.)
 *
 * At disposal `lease_engine.ts` calls `keep()`: the lease is lost for its holder, but its lock is _kept_, and
 * renewed as before, so that nobody gets it while the holder stops; with `outlivesDisposal` the lock is left as it
 * is. After half of the time of the disposal, `close()` releases what is left. At the end, what still waits for a
 * renewal is sent at once, and then nothing any more.
 *
 * The picture is in `docs/design.md`, section 3, as are the invariants that comments name. Nothing here knows a
 * server: a strategy sends the requests.
 *
 * @module
 */
import type { Channel } from "node:diagnostics_channel";
import type { HoldEvent } from "../contract/channels.ts";
import type { Lease, LockMode, RenewalLate } from "../contract/distributed_lock.ts";
import { LeaseLostError, type LeaseLostReason, LockError } from "../contract/errors.ts";
import { type Hold, recordUse } from "../contract/nesting.ts";
import { ttl } from "../contract/options.ts";
import { promiseTry } from "../contract/promise_try.ts";
import {
  abortable,
  type Clock,
  deadlineMs,
  elapsedMs,
  type Instant,
  instant,
  pause,
  settledWithin,
  wasSuspended,
} from "../time/clock.ts";
import { Attempt } from "./attempt.ts";
import type { Background } from "./lifetime.ts";
import {
  type Grant,
  type LeaseActions,
  refusedRelease,
  type ReleaseAnswer,
  type RenewAnswer,
  UNSENT,
} from "./grant.ts";
import type { LeaseSchedule, ScheduledLease } from "./lease_schedule.ts";
import { HOLD_CHANNELS, holdEvent, outside } from "./tracing.ts";

/** What all leases of one strategy instance share. */
export interface LeaseContext {
  /** The name of the strategy, as the channels show it. */
  readonly strategy: string;
  readonly clock: Clock;
  readonly schedule: LeaseSchedule<ManagedLease>;
  /** The clean-ups and the running releases. Disposal waits for both. */
  readonly background: Background;
  /** Aborts when the time of disposal is over. From then on no release waits for a renewal. */
  readonly hurried: AbortSignal;
  /** Aborts at the end of disposal. From then on no release is attempted. */
  readonly stopped: AbortSignal;
  /** The user's option: gets each lease that has less than a third of its time left, although it is renewed. */
  readonly onRenewalLate: ((late: RenewalLate) => void) | undefined;
  /** About the shortest recent time, in ms, from a renewal to its answer. Only leases write it. */
  answerMs: number;
}

/** How early, in ms, a renewal may be sent in order to leave together with others. */
const BURST_MS = 100;
/** The fiftieth of a lease's time in `#canBeSaved()` is at most this, in ms. */
const MAX_HOPELESS_MS = 200;

const NO_ANSWER: ReleaseAnswer = { state: "unknown", cause: undefined };

/** The pause in ms before a retry, shortened at random so that processes do not retry in step. */
function retryDelayMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 20, 5), 500) * (0.5 + Math.random() / 2);
}

/** A {@linkcode Lease} as its strategy uses it. */
export class ManagedLease implements Lease, ScheduledLease {
  readonly name: string;
  readonly ownerId: string;
  readonly mode: LockMode;
  readonly fencingToken: bigint;
  // These three belong to the schedule.
  atMs = Infinity;
  order = 0;
  index = -1;
  readonly #context: LeaseContext;
  readonly #actions: LeaseActions;
  readonly #grant: Grant;
  #state: "held" | "kept" | "released" | "lost" = "held";
  /** The moments, in monotonic ms, from which the lease is over: by its TTL, and by `maxHoldMs`. */
  #deadlineMs: number;
  #maxHoldAtMs: number;
  /** The longest TTL, in ms, of an answered request. No answer is believed for longer than that. */
  #ttlMs: number;
  /** The longest TTL, in ms, that was requested, answered or not: how long the server may keep the lock. */
  #longestTtlMs: number;
  /** The answer that set the deadline: when its request was sent, and for how long, in ms, it is valid. */
  #sent: Instant;
  #validMs: number;
  /** When the next renewal is due, in monotonic ms; `Infinity` for never. */
  #renewAtMs = Infinity;
  /** From when on the lease counts as renewed late, in monotonic ms; `Infinity` once that is reported. */
  #lateMs = Infinity;
  /** The renewal under way, until its answer or the end of its attempt, even if the lease is over by then. */
  #renewing: Promise<boolean> | null = null;
  #attempt: Attempt | null = null;
  /**
   * Set from when a renewal is sent or queued until an answer extends the lease; `cause`: the last error, if any.
   * A lease that runs out meanwhile is "unreachable", else "expired".
   */
  #unanswered: { readonly cause: unknown } | null = null;
  #releasing: Promise<boolean> | null = null;
  /** What the methods throw: the loss; or that a release found the lease gone, or had no answer and no proof. */
  #error: LeaseLostError | null = null;
  /** The reason of `signal`: why the lease was lost while it was held. */
  #loss: LeaseLostError | null = null;
  #controller: AbortController | null = null;
  /** Resolves the promise of `keep()`. */
  #endKeep: (() => void) | null = null;
  /** The code that holds the lease, once it has used it. */
  #hold: Hold | null = null;
  /** What the channels tell about it, and when it was granted if somebody listened then; `null` until one does. */
  #trace: { readonly event: HoldEvent; readonly grantedMs?: number } | null = null;

  /** @param deadlineMs That of the grant, in monotonic ms: counted from its `startMs`, or else from `sent`. */
  constructor(context: LeaseContext, actions: LeaseActions, grant: Grant, deadlineMs: number) {
    this.#context = context;
    this.#actions = actions;
    this.#grant = grant;
    const { name, ownerId, fencingToken, sent, ttlMs, validMs, maxHoldMs } = grant;
    this.name = name;
    this.ownerId = ownerId;
    this.mode = grant.mode ?? "exclusive";
    this.fencingToken = fencingToken;
    this.#deadlineMs = deadlineMs;
    this.#maxHoldAtMs = maxHoldMs === undefined ? Infinity : context.clock.now() + maxHoldMs;
    this.#ttlMs = ttlMs;
    this.#longestTtlMs = Math.max(ttlMs, validMs); // a lock that is taken over keeps its time on the server
    this.#sent = sent;
    this.#validMs = Math.min(ttlMs, validMs);
    this.#planRenewal(sent, validMs);
  }

  /**
   * Limits leases of one instance: they are held for `maxHoldMs` more at most, and end in the same moment. Does
   * nothing and returns false if one is of another class, or a proxy, which has no private members.
   */
  static limit(leases: readonly Lease[], maxHoldMs: number): boolean {
    const managed = leases.filter((lease): lease is ManagedLease => #maxHoldAtMs in lease);
    if (managed.length < leases.length) return false;
    const endMs = managed[0]!.#context.clock.now() + maxHoldMs;
    for (const lease of managed) {
      lease.#maxHoldAtMs = Math.min(lease.#maxHoldAtMs, endMs);
      lease.#context.schedule.update(lease);
    }
    return true;
  }

  get remainingMs(): number {
    if (this.#state !== "held") return 0;
    const leftMs = Math.min(this.#deadlineMs, this.#maxHoldAtMs) - this.#context.clock.now();
    return leftMs > 0 && this.#checkProven() ? leftMs : 0;
  }

  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  /** Whether the lock must stay held for it: also while kept or unproven, and after a disposal that it outlives. */
  get needsLock(): boolean {
    if (this.#checkLive()) return true;
    const isLeft = this.#grant.outlivesDisposal === true && this.#loss?.reason === "disposed";
    return isLeft && this.#context.clock.now() < this.#deadlineMs;
  }

  get signal(): AbortSignal {
    this.#use();
    this.#controller ??= new AbortController();
    this.#checkLive();
    if (this.#loss !== null) this.#controller.abort(this.#loss);
    return this.#controller.signal;
  }

  throwIfLost(): void {
    this.#use();
    this.#throwIfOver("use");
    if (this.#checkProven()) return;
    const cause = new Error("The process was suspended since the service last answered");
    throw new LeaseLostError(this.name, "unreachable", { cause });
  }

  /** The members that logs may show: the owner id is a secret, and JSON has no big integers. */
  toJSON(): Record<string, unknown> {
    const { name, fencingToken, remainingMs } = this;
    // JSON has no infinity either: a lease without a TTL has no such member.
    const time = remainingMs === Infinity ? {} : { remainingMs };
    return { name, fencingToken: String(fencingToken), ...time };
  }

  /** `console.log()` shows the same, in Deno, Node and Bun. */
  [Symbol.for("nodejs.util.inspect.custom")](): Record<string, unknown> {
    return this.toJSON();
  }

  /** Never rejects: that would hide the error of the block that it ends. `await using` reads it at its start. */
  get [Symbol.asyncDispose](): () => Promise<void> {
    this.#use();
    return async () => void await this.release().catch(() => {});
  }

  /** These members are used by the code that holds the lease, the others perhaps by code that watches it. */
  #use(): void {
    if (this.#state === "held") this.#hold ??= recordUse(this);
  }

  // The deadline: a lease is never believed longer than the server keeps it (invariants 1 and 7).

  /**
   * The service has answered a request that was sent at `sent`: the lease has `validMs` left from then, less
   * the drift of clocks. Of two answers the later deadline counts, for this one may be late; but an answer from
   * before a suspension of the process, in which its deadline stood still, yields to any other.
   */
  extend(sent: Instant, validMs: number, ttlMs: number = this.#ttlMs): void {
    if (!this.#checkLive()) return;
    const { clock, schedule } = this.#context;
    this.#ttlMs = Math.max(this.#ttlMs, ttlMs);
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs, validMs);
    const isProven = !wasSuspended(clock, this.#sent, this.#validMs);
    if (isProven && wasSuspended(clock, sent, validMs)) return;
    this.#unanswered = null;
    const endMs = deadlineMs(sent.nowMs, this.#ttlMs, validMs);
    if (!isProven || endMs > this.#deadlineMs) {
      this.#deadlineMs = endMs;
      this.#sent = sent;
      this.#validMs = Math.min(this.#ttlMs, validMs);
    }
    this.#planRenewal(sent, validMs);
    schedule.update(this);
  }

  /** Ends the lease if its time is over: timers may be late (invariant 2). Returns whether it is held or kept. */
  #checkLive(): boolean {
    if (this.#state !== "held" && this.#state !== "kept") return false;
    const endMs = Math.min(this.#deadlineMs, this.#maxHoldAtMs);
    if (this.#context.clock.now() < endMs) return true;
    if (endMs === this.#maxHoldAtMs) this.lose("max-hold");
    else {
      const unsent = this.#attempt?.isQueued ? UNSENT : undefined;
      const cause = this.#unanswered?.cause ?? unsent;
      const reason = this.#unanswered === null ? "expired" : "unreachable";
      this.lose(this.#actions.lapsed?.(cause) ?? reason, cause);
    }
    return false;
  }

  /**
   * Whether the last answer still proves the lease. After a suspension of the process it does not: the monotonic
   * clock stood still, the TTL on the server went on (invariant 7). Then this also sends a renewal, whose answer
   * proves the lease, unless one is under way: if that was sent before the suspension, the next one proves it.
   */
  #checkProven(): boolean {
    if (!wasSuspended(this.#context.clock, this.#sent, this.#validMs)) return true;
    if (this.#renewing === null && this.#actions.renew !== undefined) {
      // Without automatic renewal, 1 ms: it proves the lease and changes nothing, for no renewal shortens one.
      this.#sendRenewal(this.#grant.autoRenew ? this.#grant.ttlMs : 1);
    }
    return false;
  }

  #throwIfOver(action: string): void {
    this.#checkLive();
    if (this.#error !== null) throw this.#error;
    if (this.#state === "held") return;
    throw new LockError(
      `Cannot ${action} the lease on lock ${JSON.stringify(this.name)}: it was released; ` +
        "acquire the lock again",
      this.name,
      { code: "ERR_LEASE_RELEASED" },
    );
  }

  // Renewal: one attempt at a time (`attempt.ts`), again and again while lease time remains (invariant 3).

  async renew(ttlMs?: number): Promise<void> {
    if (ttlMs !== undefined) ttl().check("'ttlMs'", ttlMs);
    const { clock } = this.#context;
    const called = instant(clock);
    let askMs = ttlMs ?? this.#grant.ttlMs;
    for (;;) {
      this.#throwIfOver("renew");
      if (this.#actions.renew === undefined) return;
      // The one under way may ask for another TTL, so ours follows it.
      if (this.#renewing !== null) await this.#renewing;
      else if (await this.#sendRenewal(askMs)) return;
      else if (this.#state === "held") await this.#pause(retryDelayMs(this.#grant.ttlMs));
      // For the same end as before; 1 ms only proves the lease.
      if (ttlMs !== undefined) askMs = Math.max(1, Math.ceil(ttlMs - elapsedMs(clock, called)));
    }
  }

  /** When the schedule must look at the lease, in monotonic ms. */
  get dueMs(): number {
    const renewAtMs = this.#renewing === null ? this.#renewAtMs : Infinity;
    return Math.min(this.#deadlineMs, this.#maxHoldAtMs, renewAtMs, this.#lateMs);
  }

  tick(nowMs: number): number | null {
    if (!this.#checkLive()) return null;
    const { ttlMs, watchEveryMs = Infinity } = this.#grant;
    const earlyMs = Math.min(BURST_MS, ttlMs / 10, watchEveryMs);
    if (this.#renewing === null && this.#renewAtMs <= nowMs + earlyMs) {
      if (this.#trace === null) this.#sendRenewal(ttlMs);
      else this.#sendOutside(ttlMs);
    }
    if (nowMs >= this.#lateMs) {
      this.#lateMs = Infinity;
      if (this.#state === "held") this.#reportLate();
    }
    return this.#checkLive() ? this.dueMs : null;
  }

  /**
   * The next renewal is due when two thirds of the TTL, or of a shorter granted time, are left, but a third of the
   * TTL from now at the latest: `renew()` may have prolonged the lease by far, and the lock may be stolen. It is late
   * when one third is left. With `watchEveryMs` it is due that long after the request of the last answer was sent.
   */
  #planRenewal(sent: Instant, validMs: number): void {
    const { ttlMs, watchEveryMs, autoRenew } = this.#grant;
    if (this.#actions.renew === undefined || (watchEveryMs === undefined && !autoRenew)) return;
    const thirdMs = Math.min(ttlMs, validMs) / 3;
    const endMs = this.#deadlineMs;
    const nowMs = this.#context.clock.now();
    this.#renewAtMs = watchEveryMs === undefined
      ? Math.min(endMs - 2 * thirdMs, nowMs + ttlMs / 3)
      : sent.nowMs + watchEveryMs;
    // An answer may come when much of its time is used up: then the lease is late when half of the rest is.
    this.#lateMs = endMs === Infinity ? Infinity : endMs - Math.min(thirdMs, (endMs - nowMs) / 2);
  }

  /** Resolves with true for "held" in time. An answer that comes after its attempt is still handled. */
  #sendRenewal(ttlMs: number): Promise<boolean> {
    const { clock, schedule } = this.#context;
    const grantedMs = Math.max(Math.min(this.#grant.ttlMs, this.#grant.validMs), this.#validMs);
    const attempt = new Attempt(
      clock,
      grantedMs,
      this.#deadlineMs,
      Infinity,
      () => this.#canBeSaved(),
    );
    this.#attempt = attempt;
    const called = instant(clock);
    this.#longestTtlMs = Math.max(this.#longestTtlMs, ttlMs);
    this.#unanswered ??= { cause: undefined };
    const onAnswer = (answer: RenewAnswer) => {
      const sent = attempt.turn ?? called;
      // Also if the lease is over by now: else `#canBeSaved()` would let the next ones try in vain, too.
      if (answer.state === "held" && this.#attempt === attempt) this.#learnAnswerMs(sent);
      return this.#onRenewalAnswer(sent, ttlMs, answer);
    };
    const answered = promiseTry(() => this.#actions.renew!(ttlMs, attempt))
      .then(onAnswer, (cause) => onAnswer({ state: "unknown", cause }));
    return this.#renewing = attempt.settle(answered, false).then((isHeld) => {
      this.#renewing = this.#attempt = null;
      // Infinity: not renewed automatically. Then whoever asked for this renewal tries again.
      if (!isHeld && this.#renewAtMs !== Infinity) {
        this.#renewAtMs = clock.now() + retryDelayMs(this.#grant.ttlMs);
      }
      if (this.#checkLive()) schedule.update(this);
      return isHeld;
    });
  }

  #sendOutside(ttlMs: number): void {
    outside(() => void this.#sendRenewal(ttlMs));
  }

  /**
   * Whether a renewal whose turn comes now is likely to be answered before the deadline. If more leases wait
   * than can be renewed in time, those that cannot be saved must not cost others their turn, one by one.
   */
  #canBeSaved(): boolean {
    const { clock, answerMs } = this.#context;
    const neededMs = Math.max(Math.min(this.#validMs / 50, MAX_HOPELESS_MS), 2 * answerMs);
    return this.#deadlineMs - clock.now() > neededMs;
  }

  /** A stall must not look like the usual time of an answer: the value rises slowly. */
  #learnAnswerMs(sent: Instant): void {
    const context = this.#context;
    context.answerMs = Math.min(context.clock.now() - sent.nowMs, context.answerMs * 1.01 + 0.01);
  }

  /** Returns true if the answer proves the lease. One to a request from before a suspension does not. */
  #onRenewalAnswer(sent: Instant, ttlMs: number, answer: RenewAnswer): boolean {
    if (answer.state === "unknown" && this.#unanswered !== null) {
      this.#unanswered = { cause: answer.cause };
    }
    this.#checkLive(); // first: a deadline that is over came before this answer
    if (answer.state === "lost") this.lose(answer.reason);
    else if (answer.state === "held") this.extend(sent, answer.validMs, ttlMs);
    if (answer.state !== "held" || !this.#checkLive()) return false;
    return !wasSuspended(this.#context.clock, this.#sent, this.#validMs);
  }

  /** An error of the user's callback must not end the timer of all leases. */
  #reportLate(): void {
    const { name, remainingMs } = this;
    const { renewalLate } = HOLD_CHANNELS;
    if (renewalLate.hasSubscribers) this.#publish(renewalLate, { remainingMs });
    promiseTry(() => this.#context.onRenewalLate?.({ name, remainingMs })).catch(() => {});
  }

  // Loss, for good or, at disposal, for the holder alone.

  /** Ends the lease as lost and aborts its signal. A strategy calls it, too, for instance after a steal. */
  lose(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#state !== "held" && this.#state !== "kept") return;
    this.#state = "lost";
    this.#leaveSchedule();
    this.#endForHolder(reason, cause);
    // The server may still hold the lock: `maxHoldMs` ended the lease before its TTL, or a renewal is
    // executed late. And a strategy may have to close what belongs to the lease, such as a file.
    this.#cleanUp();
  }

  /**
   * Ends the lease for its holder at disposal. Resolves when the lock is no longer kept; with
   * `outlivesDisposal` at once: the lease is lost, but the lock stays on the server.
   */
  keep(): Promise<void> {
    this.#checkLive();
    if (this.#state !== "held") return Promise.resolve();
    const { outlivesDisposal } = this.#grant;
    this.#state = outlivesDisposal ? "lost" : "kept";
    const kept = new Promise<void>((resolve) => this.#endKeep = resolve);
    if (outlivesDisposal) this.#leaveSchedule();
    this.#endForHolder("disposed");
    return kept;
  }

  #endForHolder(reason: LeaseLostReason, cause?: unknown): void {
    if (this.#loss !== null) return; // it was kept
    const options = cause === undefined ? {} : { cause };
    this.#error = this.#loss = new LeaseLostError(this.name, reason, options);
    this.#publishLoss(this.#loss);
    this.#controller?.abort(this.#loss);
  }

  /** The lease is neither renewed nor kept any more. */
  #leaveSchedule(): void {
    this.#attempt?.withdraw();
    this.#context.schedule.remove(this);
    this.#endKeep?.();
  }

  // Release: behind a renewal under way, and until the deadline at most (invariants 3 and 6).

  release(): Promise<boolean> {
    if (this.#checkLive()) return this.#releasing = this.#release(this.#renewing);
    return (this.#releasing ?? Promise.resolve()).then(() => false);
  }

  /** Releases the lock at disposal; if hurried, ahead of a renewal under way. Never rejects. */
  async close(isHurried: boolean): Promise<void> {
    if (this.#checkLive()) this.#releasing = this.#release(isHurried ? null : this.#renewing);
    await this.#releasing?.catch(() => {});
  }

  /** Resolves with true if the lease was ours until `release()` was called. */
  async #release(renewing: Promise<unknown> | null): Promise<boolean> {
    const { clock, background, hurried, stopped } = this.#context;
    this.#state = "released";
    this.#leaveSchedule();
    // The result if no answer tells: a lease that is proven now was ours until now.
    const isOurs = !wasSuspended(clock, this.#sent, this.#validMs);
    const endMs = this.#deadlineMs;
    let refusal: LockError | null = null;
    background.enter();
    try {
      if (renewing !== null) {
        await settledWithin(clock, abortable(renewing, hurried), endMs - clock.now());
      }
      for (let mayBeReleased = false;;) {
        const leftMs = endMs - clock.now();
        if (leftMs <= 0) this.#cleanUp();
        if (leftMs <= 0 || stopped.aborted) {
          if (!isOurs) this.#error ??= new LeaseLostError(this.name, "unreachable");
          return isOurs;
        }
        const answer = await this.#sendRelease(leftMs, false);
        if (answer.state === "released") return true;
        if (answer.state === "refused") throw refusal = refusedRelease(this.name, answer);
        if (answer.state === "gone") {
          // An earlier attempt, which had no answer, may be the one that released the lock.
          if (isOurs && mayBeReleased) return true;
          this.#error ??= new LeaseLostError(this.name, answer.reason);
          return false;
        }
        mayBeReleased ||= answer.isUnexecuted !== true;
        await this.#pause(Math.min(retryDelayMs(this.#grant.ttlMs), endMs - clock.now()));
      }
    } finally {
      const { release, lost } = HOLD_CHANNELS;
      if (release.hasSubscribers || lost.hasSubscribers) this.#publishRelease(refusal);
      background.exit();
    }
  }

  /**
   * Releases in the background until the service answers. A lock that ends by its TTL has expired on the
   * server when the longest TTL that was requested is over, even if a renewal was executed just now.
   */
  #cleanUp(): void {
    const { clock, background, hurried, stopped } = this.#context;
    const isLost = this.#state === "lost"; // nobody has asked for the release
    const renewing = this.#renewing;
    const endsBySession = this.#actions.lapsed !== undefined;
    const untilMs = endsBySession ? Infinity : clock.now() + this.#longestTtlMs;
    background.run(async () => {
      if (renewing !== null) await abortable(renewing, hurried).catch(() => {});
      while (!stopped.aborted && clock.now() < untilMs) {
        const { state } = await this.#sendRelease(untilMs - clock.now(), isLost);
        if (state !== "unknown") return; // A refusal is an answer too: no retry can change it.
        await this.#pause(retryDelayMs(this.#grant.ttlMs));
      }
    });
  }

  /**
   * Sends one release. That of a lost lease waits behind all others and behind renewals, so that lost leases do
   * not cost others their time. Without an answer in time the result is "unknown".
   */
  #sendRelease(leftMs: number, isLost: boolean): ReleaseAnswer | Promise<ReleaseAnswer> {
    const { clock } = this.#context;
    const grantedMs = Math.max(this.#grant.ttlMs, this.#validMs);
    const attempt = new Attempt(clock, grantedMs, isLost ? Infinity : 0, leftMs);
    try {
      const answer = this.#actions.release(isLost, attempt);
      return "state" in answer ? answer : attempt.settle(answer, NO_ANSWER);
    } catch {
      return NO_ANSWER;
    }
  }

  // What the channels tell: of each lease one grant, and one loss or release.

  /** Called only if somebody listens. */
  traceGrant(): void {
    const { strategy, clock } = this.#context;
    const { call } = this.#grant;
    call?.takeTime();
    this.#trace = { event: holdEvent(strategy, this, call), grantedMs: clock.now() };
    const { grant } = HOLD_CHANNELS;
    if (grant.hasSubscribers) this.#publish(grant, {});
  }

  #publish(channel: Channel, news: Partial<HoldEvent>): void {
    const { strategy, clock } = this.#context;
    const trace = this.#trace ??= { event: holdEvent(strategy, this, this.#grant.call) };
    const { event, grantedMs } = trace;
    const held = grantedMs === undefined ? {} : { heldMs: clock.now() - grantedMs };
    channel.publish(Object.assign(event, held, news));
  }

  #publishLoss(error: LeaseLostError): void {
    const { lost } = HOLD_CHANNELS;
    if (lost.hasSubscribers) this.#publish(lost, { reason: error.reason, error });
  }

  /** @param refusal Why the lock stays held, if the service has refused to release it. */
  #publishRelease(refusal: LockError | null): void {
    if (this.#loss !== null) return; // the lease had ended for its holder
    if (this.#error !== null) return this.#publishLoss(this.#error);
    const { release } = HOLD_CHANNELS;
    if (release.hasSubscribers) this.#publish(release, refusal === null ? {} : { error: refusal });
  }

  #pause(delayMs: number): Promise<void> {
    const { clock, stopped } = this.#context;
    return pause(clock, delayMs, stopped);
  }
}
