/**
 * One acquire call, from its first ask to a lease or to the clean-up.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import { type Instant, instant, pause } from "../core/clock.ts";
import { LockError, LockUnavailableError } from "../core/errors.ts";
import { type Grant, grantDeadlineMs, type ReleaseAnswer } from "../core/grant.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { AcquisitionHost, AcquisitionRequest, Receiver } from "./acquisition_request.ts";
import { CallTrace, TOMBSTONE_MS } from "./clean_up_state.ts";
import type { Asked } from "./protocol/commands.ts";
import { ownerValue } from "./protocol/owner_value.ts";
import { RETRY_MS } from "../core/outage_budget.ts";
import type { GrantMessage, InboxMessage } from "./protocol/messages.ts";
import type { LeaveAnswer, Queued } from "./protocol/replies.ts";
import { claimStartMs } from "./waiting/schedule.ts";
import type { Waiter } from "./waiting/waiting_room.ts";

/** How one step of an acquisition ended. */
type Outcome =
  | { kind: "lease"; lease: ManagedLease }
  | { kind: "queued"; answer: Queued; asked: Asked }
  | { kind: "held" }
  | { kind: "again" };

const AGAIN: Outcome = { kind: "again" };

/**
 * Asks until the lock is ours, or somebody else's and the caller does not want to wait; in between
 * waits in the queue for a grant. At most one ask is without an answer at any time, so that a client's
 * offline queue cannot grow.
 */
export class Acquisition implements Waiter, Receiver {
  readonly #host: AcquisitionHost;
  readonly #request: AcquisitionRequest;
  readonly #value: string;
  readonly #firstSent: Instant;
  readonly #trace: CallTrace;
  #ticket = 0;
  #lease: ManagedLease | null = null;
  #grant: { message: GrantMessage; received: Instant } | null = null;
  #mustAsk = false;
  /** Whether what was granted may be somebody else's by now. */
  #isStolen = false;
  #failure: { error: unknown } | null = null;
  /** Ends the wait for an answer or a message. */
  #wake: () => void = () => {};

  constructor(host: AcquisitionHost, request: AcquisitionRequest) {
    this.#host = host;
    this.#request = request;
    this.#value = ownerValue(request.owner);
    this.#trace = new CallTrace(host.commands);
    this.#firstSent = instant(host.engine.clock);
  }

  get ticket(): number {
    return this.#ticket;
  }

  /** Runs to the end. Whatever way it ends without a lease, nothing of it stays on the server. */
  async run(): Promise<ManagedLease | null> {
    const { engine, rooms, receivers } = this.#host;
    const { keys } = this.#request;
    receivers.set(this.#value, this);
    engine.background.enter();
    try {
      return this.#lease = await this.#loop();
    } catch (error) {
      if (error instanceof LockUnavailableError) rooms.get(keys)?.failAll(error);
      throw error;
    } finally {
      rooms.leave(keys, this);
      if (this.#lease === null) this.#giveUp();
      engine.background.exit(); // disposal has waited for this
    }
  }

  ask(): void {
    this.#mustAsk = true;
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure = { error };
    this.#wake();
  }

  /** A message for this owner. A grant to one that holds already is a duplicate. */
  receive(message: InboxMessage): void {
    const { kind } = message;
    if (kind === "stolen") this.#onStolen();
    else if (this.#lease !== null) return;
    else if (message.kind !== "grant") this.ask();
    else {
      this.#grant = { message, received: instant(this.#host.engine.clock) };
      this.#wake();
    }
  }

  /** The grant that was stolen may not be a lease yet: then the caller never sees it. */
  #onStolen(): void {
    if (this.#lease !== null) return this.#lease.lose("stolen");
    this.#grant = null;
    this.#isStolen = true;
    this.ask();
  }

  async #loop(): Promise<ManagedLease | null> {
    const { keys, budget, signal, onWait } = this.#request;
    const { inbox, rooms } = this.#host;
    for (;;) {
      signal.throwIfAborted();
      const outcome = this.#grant === null ? await this.#askOnce() : this.#accept();
      if (outcome.kind === "lease") return outcome.lease;
      if (outcome.kind === "held") return null;
      if (outcome.kind === "again") continue;
      const { answer, asked } = outcome;
      this.#ticket ||= answer.ticket;
      onWait({ position: answer.position, waiters: answer.waiters });
      rooms.of(keys).queue(this, answer, asked);
      inbox.open();
      await this.#sleep();
      budget.answered(); // it starts anew with each ask
    }
  }

  /**
   * Waits in the queue for a grant, or until it is time to ask again. Disposal wakes those who sleep:
   * a signal that a thousand of them listened to would be slow to listen to.
   */
  async #sleep(): Promise<void> {
    const { signal, ownSignal } = this.#request;
    while (this.#grant === null && !this.#mustAsk) {
      signal.throwIfAborted();
      if (this.#failure !== null) throw this.#failure.error;
      const woken = new Promise<void>((resolve) => this.#wake = resolve);
      await (ownSignal === undefined ? woken : abortable(woken, ownSignal));
    }
  }

  /** Sends one ask and waits for its answer, or for a grant that overtakes it. */
  async #askOnce(): Promise<Outcome> {
    const { budget, signal } = this.#request;
    signal.throwIfAborted();
    this.#mustAsk = this.#isStolen = false;
    let asked: Asked | void;
    try {
      asked = await budget.settle(this.#sendOrGrant(), this.#request.ownSignal);
    } catch (error) {
      await budget.recover(error);
      return AGAIN;
    }
    signal.throwIfAborted();
    if (!asked) return AGAIN;
    if (this.#isStolen) return AGAIN;
    // A grant that is always known too late, or an ask that always comes too late, is no answer.
    const { state } = asked.answer;
    if (state !== "granted" && state !== "late") {
      budget.answered();
      this.#failure = null; // of another call, whose time was up before
    }
    return this.#read(asked);
  }

  /** An ask, a grant that comes by message before its answer, or disposal, which wakes. */
  #sendOrGrant(): Promise<Asked | void> {
    const { signal } = this.#request;
    return new Promise((resolve, reject) => {
      this.#wake = () => {
        if (this.#grant !== null) resolve();
        else if (signal.aborted) reject(signal.reason);
      };
      this.#send().then(resolve, reject);
    });
  }

  #send(): Promise<Asked> {
    const { commands, inbox, receivers } = this.#host;
    const { keys, owner, ttlMs, mode, signal } = this.#request;
    const place = { inbox: inbox.id, isCountable: inbox.isCountable, ticket: this.#ticket };
    const isWanted = () =>
      !signal.aborted && this.#lease === null && receivers.get(this.#value) === this;
    const ask = { keys, owner, ttlMs, mode, ...place };
    return this.#trace.follow(keys, () => commands.ask(ask, isWanted));
  }

  #read(asked: Asked): Outcome {
    const { answer, sent } = asked;
    switch (answer.state) {
      case "granted":
        return this.#open({ sent, ...answer });
      case "queued":
        return { kind: "queued", answer, asked };
      case "held":
        return { kind: "held" };
      case "late":
        this.#request.budget.check();
        return AGAIN; // now the server's clock is known
      case "ended":
        throw new LockError(
          "Cannot ask for a lock under an owner that has left",
          this.#request.name,
        );
    }
  }

  /**
   * Takes a grant that came by message. One that came late, that is half over, or that shall not be
   * renewed by itself is asked for once more: the server has us as the owner and prolongs the claim.
   */
  #accept(): Outcome {
    const { commands, rooms, engine } = this.#host;
    const { keys, autoRenew } = this.#request;
    const { message: { serverMs, claimMs, fencingToken }, received } = this.#grant!;
    this.#grant = null;
    this.#trace.granted();
    // In a cluster the lock may have moved since, to a node with another clock.
    const mapping = commands.cluster ? null : rooms.get(keys)?.mapping(commands.epoch) ?? null;
    const startMs = claimStartMs(mapping, this.#firstSent.nowMs, serverMs, received.nowMs);
    const grant = { sent: mapping?.sent ?? this.#firstSent, startMs, validMs: claimMs };
    const leftMs = grantDeadlineMs({ ...grant, ttlMs: claimMs }) - engine.clock.now();
    return autoRenew && leftMs > claimMs / 2 ? this.#open({ ...grant, fencingToken }) : AGAIN;
  }

  #open(grant: Pick<Grant, "sent" | "startMs" | "validMs" | "fencingToken">): Outcome {
    const { engine, commands } = this.#host;
    const { name, keys, owner, ttlMs, autoRenew, budget, onEnd } = this.#request;
    const { maxHoldMs, outlivesDisposal } = this.#request;
    // What its owner id was granted before still counts: it must not end with a shorter TTL.
    const longestMs = outlivesDisposal ? Math.max(ttlMs, grant.validMs) : ttlMs;
    const terms = { ttlMs: longestMs, autoRenew, maxHoldMs, outlivesDisposal };
    const lease = engine.open(
      { ...grant, ...terms, name, ownerId: owner.ownerId },
      {
        renew: (ttlMs) => commands.renew(keys, owner, ttlMs),
        release: () => {
          onEnd?.();
          return this.#giveBack();
        },
      },
    );
    if (lease !== null) return { kind: "lease", lease };
    budget.check();
    return AGAIN; // known too late: the same owner asks again
  }

  /** One attempt to release. That the lock is gone may be what a copy of it has found. */
  async #giveBack(): Promise<ReleaseAnswer> {
    const { commands } = this.#host;
    const { epoch } = commands;
    const { answer } = await this.#leave();
    if (answer.state !== "gone" || commands.epoch === epoch) return answer;
    return { state: "unknown", cause: new Error("The connection has changed meanwhile") };
  }

  /** One attempt to give back what the server knows of us. */
  #leave(keeps = false): Promise<LeaveAnswer> {
    const { receivers, leave } = this.#host;
    // A grant that comes from now on is handed on, as one to a stranger is.
    receivers.delete(this.#value);
    return leave(this.#request.keys, this.#value, this.#trace.tombstoneMs, keeps);
  }

  /** Leaves in the background, until the server has answered or nothing of us can be left. */
  #giveUp(): void {
    const { engine, receivers } = this.#host;
    receivers.delete(this.#value);
    if (!this.#trace.isLeft) return;
    // The owner id may have held the lock before, and counts on it: what we have taken over stays.
    const keeps = this.#request.mode.kind === "attach" || this.#request.outlivesDisposal;
    const untilMs = engine.clock.now() + this.#request.ttlMs + TOMBSTONE_MS;
    engine.background.run(async () => {
      while (!engine.stopped.aborted && engine.clock.now() < untilMs) {
        const left = await this.#leave(keeps).catch(() => null);
        if (left !== null) return;
        await pause(engine.clock, RETRY_MS, engine.stopped);
      }
    });
  }
}
