import {
  ACQUIRE_OPTIONS,
  MAX_HOLDERS,
  modeOf,
  readMaxWaiters,
} from "../core/contract/call_options.ts";
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockMode,
  LockSnapshot,
  QueryOptions,
  RequestMethod,
  WaitInfo,
} from "../core/contract/distributed_lock.ts";
import { type LeaseLostReason, LockError, LockSetupError } from "../core/contract/errors.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { checkName, makeOwnerId, readTable } from "../core/contract/options.ts";
import { requestOn } from "../core/contract/request.ts";
import { Calls } from "../core/lease/calls.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import type { LeaseActions, ReleaseAnswer, RenewAnswer } from "../core/lease/grant.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import { LocalQueue, type Turn } from "../core/lease/local_queue.ts";
import { CallSignal } from "../core/time/abort_watch.ts";
import { ANSWER_WITHIN_MS } from "../core/time/bounded_wait.ts";
import {
  type Clock,
  type Instant,
  instant,
  SYSTEM_CLOCK,
  wasSuspended,
} from "../core/time/clock.ts";
import { DURATION, type FakeClock, onSuspension } from "./fake_clock.ts";
import {
  failure,
  type FakeFault,
  type FakeFaultOptions,
  type FakeRequest,
  Faults,
} from "./faults.ts";
import {
  FAKE_LOCK_OPTIONS,
  type FakeHolder,
  type FakeHolderOptions,
  type FakeLockOptions,
  HOLDER_OPTIONS,
  LOSS_REASON,
} from "./options.ts";

/** A lock that is held, as the service sees it. */
interface Hold {
  readonly name: string;
  readonly turn: Turn;
  readonly mode: LockMode;
  readonly fencingToken: bigint;
  readonly label: string | undefined;
  /** `null` if it is held elsewhere. */
  lease: ManagedLease | null;
  /** When it expires, in ms of the service's clock. */
  endMs: number;
  /** Why its lease is lost, if it learns of that by a request. */
  lostBy: "expired" | "stolen";
  cancelExpiry(): void;
}

/**
 * A lock in memory for the tests of code that uses locks. It behaves as `RedisLock` does (leases with a TTL and
 * renewals, a queue that is first in, first out, fencing tokens, steal), without a server, `attach()` and `list()`.
 * Its leases are those of the library's own engine, so events, errors and signals come as from a real lock.
 *
 * It excludes only callers of the *same instance* from each other, and checks nothing of your servers: test against
 * them, too.
 *
 * @example Code that must not run twice
 * ```ts
 * import { LockTimeoutError } from "@holdfast/lock";
 * import { FakeLock } from "@holdfast/lock/testing";
 * import { assertEquals, assertRejects } from "@std/assert";
 *
 * await using locks = new FakeLock();
 * const other = locks.holdElsewhere("nightly-report", { label: "host-b" });
 * const report = () => locks.request("nightly-report", { waitMs: 0 }, () => "done");
 * const error = await assertRejects(report, LockTimeoutError);
 * assertEquals(error.holderLabel, "host-b");
 * other.release();
 * assertEquals(await report(), "done");
 * assertEquals(locks.counts().release, 1);
 * ```
 */
export class FakeLock implements DistributedLock {
  /** The guarantees and features: those of `RedisLock`, but for `attach` and `list`. */
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "global",
    endsBy: "ttl",
    steal: true,
    attach: false,
    shared: true,
    limit: true,
    list: false,
  });
  readonly #nesting = new Nesting(this);
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this, {
    options: ACQUIRE_OPTIONS,
    nesting: this.#nesting,
    steal: this.#steal.bind(this),
  });
  readonly #ttlMs: number;
  readonly #unavailableAfterMs: number;
  readonly #fakeClock: FakeClock | undefined;
  readonly #clock: Clock;
  /** The time of the service: it goes on while the process is suspended. */
  readonly #serviceMs: () => number;
  readonly #engine: LeaseEngine;
  readonly #lifetime: Lifetime;
  readonly #queue: LocalQueue;
  readonly #faults: Faults;
  readonly #calls: Calls;
  /** The holders of each lock. */
  readonly #holds = new Map<string, Set<Hold>>();
  /** The calls that wait in the queue. */
  readonly #waiting = new Set<{ readonly name: string; readonly end: CallSignal }>();
  #lastToken = 0n;

  /**
   * Creates a manager of locks.
   *
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(options: FakeLockOptions = {}) {
    const read = readTable("new FakeLock()", options, FAKE_LOCK_OPTIONS);
    const { ttlMs, unavailableAfterMs, onRenewalLate, clock } = read;
    const disposeTimeoutMs = read.disposeTimeoutMs ?? (clock === undefined ? 2_000 : 0);
    this.#lifetime = new Lifetime({ ...read, disposeTimeoutMs });
    this.#ttlMs = ttlMs;
    this.#unavailableAfterMs = unavailableAfterMs;
    this.#fakeClock = clock;
    this.#clock = clock ?? SYSTEM_CLOCK;
    this.#serviceMs = clock === undefined ? SYSTEM_CLOCK.now : () => clock.wall();
    if (clock !== undefined) onSuspension(clock, () => this.#resume(), this.#lifetime.ended);
    this.#engine = new LeaseEngine("fake", this.#clock, onRenewalLate);
    this.#queue = new LocalQueue(this.#clock);
    this.#faults = new Faults(this.#clock);
    const [lifetime, nesting] = [this.#lifetime, this.#nesting];
    const parts = { strategy: "fake", lock: this, lifetime, nesting, clock: this.#clock };
    this.#calls = new Calls(parts, {
      wait: this.#wait.bind(this),
      tryOnce: this.#tryOnce.bind(this),
      look: this.#look.bind(this),
      steal: this.#stealNow.bind(this),
    });
  }

  /** Waits for the lock and acquires it. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const read = this.#calls.read(name, options);
    this.#faults.count("acquire", name);
    return await this.#calls.acquire(name, read);
  }

  /** Acquires the lock if it is free now, or within `waitMs`. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    const read = this.#calls.read(name, options);
    this.#faults.count("acquire", name);
    return await this.#calls.tryAcquire(name, read);
  }

  /** Reads the holder and the waiters of a lock. See {@linkcode DistributedLock.query}. */
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    this.#check(name);
    this.#faults.count("query", name);
    await this.#send("query", name);
    return this.#describe(name, maxWaiters);
  }

  /** Rejects waiters with an `AbortError`, ends all faults and leases. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(async () => {
      this.#faults.endAll(); // or the releases of the leases would have them
      this.#queue.rejectAll(this.#lifetime.ended.reason);
      const closed = this.#engine.close(this.#lifetime.disposeTimeoutMs);
      await this.#fakeClock?.advance(0); // a time limit of 0 ms is a timer, too
      await closed;
      for (const holds of this.#holds.values()) for (const hold of holds) hold.cancelExpiry();
    });
  }

  // What tests do.

  /**
   * Holds a lock as another process would.
   *
   * @returns The holder, which releases the lock.
   * @throws {LockError} If somebody holds the lock and `steal` is not set.
   * @throws {TypeError} If the name or an option has a wrong type.
   * @throws {RangeError} If the name or an option is out of range.
   */
  holdElsewhere(name: string, options: FakeHolderOptions = {}): FakeHolder {
    this.#check(name);
    const { label, mode, steal, ttlMs } = readTable("holdElsewhere()", options, HOLDER_OPTIONS);
    const turn = steal ? this.#seize(name) : this.#queue.tryEnter(name, { mode });
    if (turn === null) {
      throw new LockError(
        `Cannot hold lock ${JSON.stringify(name)} elsewhere: somebody holds it; ` +
          "release it, or pass 'steal: true'",
        name,
      );
    }
    const hold = this.#hold({ name, turn, mode, label }, ttlMs ?? Infinity);
    const release = () => this.#free(hold);
    const { fencingToken } = hold;
    return { name, fencingToken, release, [Symbol.dispose]: () => void release() };
  }

  /**
   * Takes the lease of the code under test away, or all of its shared ones, and notifies their holders, as a
   * real strategy does:
   * - `"expired"`, `"stolen"`, `"session-expired"`: the lock is free at the service, then the lease is lost;
   * - `"unreachable"`, `"max-hold"`: the lease is lost, then the lock is released in the background;
   * - `"disposed"`: the lease is lost, and the lock is kept until the holder releases it.
   *
   * @param cause The `cause` of the `LeaseLostError`, if it is to have one.
   * @throws {LockError} If the code under test does not hold the lock.
   * @throws {TypeError} If the name or the reason is bad.
   * @throws {RangeError} If the name is too long or empty.
   */
  loseLease(name: string, reason: LeaseLostReason, cause?: unknown): void {
    checkName(name);
    LOSS_REASON.check("the reason", reason);
    const holds = [...this.#holds.get(name) ?? []]
      .filter(({ lease }) => lease !== null && !isOver(lease));
    if (holds.length === 0) {
      throw new LockError(
        `Cannot take the lease on lock ${JSON.stringify(name)} away: nobody holds one here`,
        name,
      );
    }
    for (const hold of holds) {
      if (reason === "disposed") void hold.lease!.keep();
      else {
        if (reason !== "unreachable" && reason !== "max-hold") this.#free(hold);
        hold.lease!.lose(reason, cause);
      }
    }
  }

  /**
   * Requests fail at once as in an outage: calls reject with a `LockUnavailableError`, also those that wait in the
   * queue, and renewals and releases get no answer. A lease that cannot be renewed is lost at its deadline.
   *
   * @param options Which requests fail, and how many. Without them, all do.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  startOutage(options: FakeFaultOptions = {}): FakeFault {
    return this.#startFailure("outage", options);
  }

  /**
   * The service refuses requests, as one whose user has lost a permission: calls and releases reject with a
   * `LockSetupError`. A lease that cannot be renewed is lost at its deadline.
   *
   * @param options Which requests are refused, and how many. Without them, all are.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  startRefusal(options: FakeFaultOptions = {}): FakeFault {
    return this.#startFailure("refusal", options);
  }

  /**
   * Requests arrive at the service late, and so do their answers.
   *
   * @param delayMs By how many ms; by default they wait for the end of the fault, as if the service were frozen.
   * @param options Which requests are late, and how many. Without them, all are.
   * @throws {TypeError} If the delay or an option has a wrong type.
   * @throws {RangeError} If the delay or an option is out of range.
   */
  delayAnswers(delayMs?: number, options: FakeFaultOptions = {}): FakeFault {
    if (delayMs !== undefined) DURATION.check("'delayMs'", delayMs);
    return this.#faults.start(delayMs ?? Infinity, options);
  }

  /**
   * How often each request was sent since this lock was made; of `"acquire"` and `"query"`: how often the methods
   * were called. For the lock `name`, or without it for all locks.
   */
  counts(name?: string): Readonly<Record<FakeRequest, number>> {
    return this.#faults.counts(name);
  }

  /**
   * Reads what `query()` would read, at once, without a request.
   *
   * @throws {TypeError} If the name is not well-formed text.
   * @throws {RangeError} If the name is too long or empty.
   */
  snapshot(name: string): LockSnapshot {
    checkName(name);
    return this.#describe(name, Infinity);
  }

  // The calls.

  #check(name: string): void {
    checkName(name);
    this.#lifetime.throwIfEnded();
  }

  /** Sends a request of a call: resolves when the service executes it. */
  async #send(
    request: FakeRequest,
    name: string,
    signal?: AbortSignal,
    withinMs = this.#unavailableAfterMs,
  ): Promise<void> {
    signal?.throwIfAborted();
    await this.#faults.pass(request, name, Math.min(withinMs, this.#unavailableAfterMs), signal);
    signal?.throwIfAborted();
    this.#lifetime.ended.throwIfAborted();
  }

  async #wait(name: string, options: CallOptions): Promise<Lease> {
    const { signal } = options;
    const sent = instant(this.#clock);
    let lease: ManagedLease | null = null;
    let isQueued = false;
    const onWait = (info: WaitInfo) => {
      isQueued = true;
      options.onWait?.({ ...info, ...this.#remaining(name) });
    };
    const onTurn = (turn: Turn) => {
      lease = this.#open(name, turn, options, isQueued ? instant(this.#clock) : sent);
    };
    // An abort or an outage may come before the call is in the queue.
    const waiting = { name, end: new CallSignal(signal) };
    this.#waiting.add(waiting);
    try {
      await this.#send("acquire", name, waiting.end.signal);
      this.#lifetime.ended.throwIfAborted();
      const { label = this.#lifetime.label } = options;
      const { signal } = waiting.end;
      await this.#queue.enter(name, { ...options, signal, label, onWait, onTurn });
    } finally {
      this.#waiting.delete(waiting);
      waiting.end.end();
    }
    return await this.#handOut(name, lease, signal) ?? await this.#wait(name, options);
  }

  async #tryOnce(name: string, options: CallOptions, withinMs: number): Promise<Lease | null> {
    const sent = instant(this.#clock);
    await this.#send("acquire", name, options.signal, withinMs);
    const turn = this.#queue.tryEnter(name, options);
    if (turn !== null) {
      const lease = this.#open(name, turn, options, sent);
      return await this.#handOut(name, lease, options.signal) ??
        await this.#tryOnce(name, options, withinMs);
    }
    options.onWait?.({ waiters: this.#queue.waiterCount(name), ...this.#remaining(name) });
    return null;
  }

  async #look(name: string): Promise<LockSnapshot> {
    await this.#send("query", name, undefined, ANSWER_WITHIN_MS);
    return this.#describe(name, 0);
  }

  async #steal(name: string, options: AcquireOptions): Promise<Lease> {
    const read = this.#calls.read(name, options);
    this.#faults.count("acquire", name);
    return await this.#calls.steal(name, read);
  }

  async #stealNow(name: string, options: CallOptions): Promise<Lease> {
    const sent = instant(this.#clock);
    await this.#send("acquire", name);
    const victims = this.#holds.get(name) ?? [];
    const lease = this.#open(name, this.#seize(name), options, sent);
    for (const victim of victims) victim.lease?.lose("stolen");
    return await this.#handOut(name, lease) ?? await this.#stealNow(name, options);
  }

  /**
   * Returns a lease to its caller, unless the signal aborted or the instance was disposed in the meantime; `null` if
   * the process was suspended since the grant, and the lock has expired at the service.
   */
  async #handOut(
    name: string,
    lease: ManagedLease | null,
    signal?: AbortSignal,
  ): Promise<Lease | null> {
    if (lease === null) {
      const late = "its answer came after the end of the lease that it granted";
      throw failure("outage", name, late);
    }
    const ending = [signal, this.#lifetime.ended].find((each) => each?.aborted);
    if (ending !== undefined) {
      await lease.release();
      throw ending.reason;
    }
    if (lease.isHeld || !lease.needsLock) return lease;
    const hold = [...this.#holds.get(name) ?? []].find((each) => each.lease === lease);
    if (hold === undefined || this.#expire(hold)) {
      lease.lose("expired");
      return null;
    }
    // A real strategy asks again, and here the answer would come at once.
    lease.extend(instant(this.#clock), hold.endMs - this.#serviceMs());
    return lease;
  }

  #startFailure(kind: "outage" | "refusal", options: FakeFaultOptions): FakeFault {
    const fault = this.#faults.start(kind, options);
    for (const { name, end } of [...this.#waiting]) {
      if (fault.strikes("acquire", name)) end.abort(failure(kind, name, fault.reason));
    }
    return fault;
  }

  // The service.

  #hold(held: Pick<Hold, "name" | "turn" | "mode" | "label">, ttlMs: number): Hold {
    const hold: Hold = {
      ...held,
      label: held.label || undefined,
      fencingToken: ++this.#lastToken,
      lease: null,
      endMs: this.#serviceMs() + ttlMs,
      lostBy: "expired",
      cancelExpiry() {},
    };
    const holds = this.#holds.get(held.name) ?? new Set();
    this.#holds.set(held.name, holds.add(hold));
    this.#awaitExpiry(hold);
    return hold;
  }

  /** A suspension has brought the ends of all TTLs nearer. */
  #resume(): void {
    const holds = [...this.#holds.values()].flatMap((each) => [...each]);
    for (const hold of holds) this.#awaitExpiry(hold);
  }

  /** Frees a lock at the end of its TTL, which renewals and suspensions move. */
  #awaitExpiry(hold: Hold): void {
    hold.cancelExpiry();
    if (hold.endMs === Infinity || this.#expire(hold)) return;
    const look = () => this.#awaitExpiry(hold);
    hold.cancelExpiry = this.#clock.schedule(look, hold.endMs - this.#serviceMs());
  }

  /** Frees a lock whose TTL is over. Returns whether it is. */
  #expire(hold: Hold): boolean {
    if (this.#serviceMs() < hold.endMs) return false;
    this.#free(hold);
    return true;
  }

  /** Frees a lock: the next waiter gets it. Returns whether it was held. */
  #free(hold: Hold): boolean {
    if (!hold.turn.isCurrent) return false;
    hold.cancelExpiry();
    const holds = this.#holds.get(hold.name);
    holds?.delete(hold);
    if (holds?.size === 0) this.#holds.delete(hold.name);
    return hold.turn.end();
  }

  #seize(name: string): Turn {
    for (const hold of this.#holds.get(name) ?? []) {
      hold.cancelExpiry();
      hold.lostBy = "stolen";
    }
    this.#holds.delete(name);
    return this.#queue.seize(name);
  }

  #open(
    name: string,
    turn: Turn,
    options: CallOptions,
    sent: Instant,
  ): ManagedLease | null {
    const ttlMs = this.#ttlMs;
    const { label = this.#lifetime.label } = options;
    const mode = modeOf(options);
    const hold = this.#hold({ name, turn, mode, label }, ttlMs);
    // After a suspension a real strategy asks again. Here the answer would come at once: the lease counts from now.
    if (wasSuspended(this.#clock, sent, ttlMs)) sent = instant(this.#clock);
    const actions: LeaseActions = {
      renew: (ttlMs) => this.#renew(hold, ttlMs),
      release: () => this.#release(hold),
    };
    hold.lease = this.#engine.open({
      name,
      ownerId: makeOwnerId(label),
      mode,
      fencingToken: hold.fencingToken,
      sent,
      ttlMs,
      validMs: ttlMs,
      autoRenew: options.autoRenew ?? true,
      maxHoldMs: options.maxHoldMs,
      call: options.call,
    }, actions);
    if (hold.lease === null) this.#free(hold);
    return hold.lease;
  }

  async #renew(hold: Hold, ttlMs: number): Promise<RenewAnswer> {
    this.#faults.count("renew", hold.name);
    await this.#faults.pass("renew", hold.name);
    if (!hold.turn.isCurrent || this.#expire(hold)) {
      return { state: "lost", reason: hold.lostBy };
    }
    const nowMs = this.#serviceMs();
    hold.endMs = Math.max(hold.endMs, nowMs + ttlMs);
    return { state: "held", validMs: hold.endMs - nowMs };
  }

  async #release(hold: Hold): Promise<ReleaseAnswer> {
    this.#faults.count("release", hold.name);
    try {
      await this.#faults.pass("release", hold.name);
    } catch (cause) {
      if (!(cause instanceof LockSetupError)) return { state: "unknown", cause };
      return { state: "refused", reason: (cause.cause as Error).message, cause };
    }
    if (!hold.turn.isCurrent || this.#expire(hold)) {
      return { state: "gone", reason: hold.lostBy };
    }
    this.#free(hold);
    return { state: "released" };
  }

  /** How long, in ms, the last holder's lease lives unless it is renewed, if it ends by itself. */
  #remaining(name: string): { remainingMs?: number } {
    const ends = Array.from(this.#holds.get(name) ?? [], ({ endMs }) => endMs);
    return this.#until(Math.max(-Infinity, ...ends));
  }

  #until(endMs: number): { remainingMs?: number } {
    return Math.abs(endMs) === Infinity
      ? {}
      : { remainingMs: Math.max(0, endMs - this.#serviceMs()) };
  }

  #describe(name: string, maxWaiters: number): LockSnapshot {
    const holds = [...this.#holds.get(name) ?? []].toSorted((a, b) => a.endMs - b.endMs);
    return {
      name,
      holders: holds.slice(0, MAX_HOLDERS).map(({ mode, label, fencingToken, endMs }) => ({
        mode,
        ...(label === undefined ? {} : { label }),
        fencingToken,
        ...this.#until(endMs),
      })),
      holderCount: holds.length,
      waiters: this.#queue.described(name, maxWaiters),
      waiterCount: this.#queue.waiterCount(name),
    };
  }
}

/** Whether a lease is lost or released. One that is unproven is neither. */
function isOver(lease: ManagedLease): boolean {
  try {
    lease.throwIfLost();
    return false;
  } catch (error) {
    return lease.signal.aborted || (error as LockError).code === "ERR_LEASE_RELEASED";
  }
}
