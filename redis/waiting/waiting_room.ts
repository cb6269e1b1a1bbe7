import type { LockMode } from "../../core/contract/distributed_lock.ts";
import type { Clock } from "../../core/time/clock.ts";
import { LinkedSet } from "../../core/lease/linked_set.ts";
import type { LockKeys } from "../protocol/keys.ts";
import type { InboxMessage } from "../protocol/messages.ts";
import type { Queued } from "../protocol/wire.ts";
import type { ClockMapping } from "../protocol/server_clocks.ts";
import type { Inbox } from "./inbox.ts";

/** How often in ms a process asks at least. Each ask renews the 6 s for which its inbox counts as alive. */
const HEARTBEAT_MS = 2_000;
/** How often in ms the process of the first waiter in the queue asks. */
const HEAD_POLL_MS = 500;
/** The same in ms if no message tells it of a release: of another library, or as its inbox is mute. */
const UNTOLD_POLL_MS = 20;
/** How long in ms it takes until the last waiter asks, if all of them do. */
export const SPREAD_MS = 1_000;
const STEPS = 20;
/** How many waiters ask in one step, at least. */
const MIN_STEP = 256;

/** A call that asks for a lock or waits for it. Its event methods send nothing themselves. */
export interface Waiter {
  readonly keys: LockKeys;
  /** The owner value of the call. Messages name their receiver by it. */
  readonly value: string;
  /** The ticket that the call's first answer gave it. It keeps the waiter's position in the queue. */
  readonly ticket: number;
  readonly leaseMode: LockMode;
  onMessage(message: InboxMessage): void;
  onAskDue(): void;
  /** Another waiter of this lock has given up, as Redis seems to be unavailable: it asks, too. */
  onOutage(): void;
  /** The caller's signal has aborted, or the instance is being disposed. */
  onAborted(): void;
}

/** Stands for the last answer to a waiter that is not first in line. */
const BEHIND = { position: Infinity, leftMs: -1, holderIsOurs: true };
/** The same, if it may have become the first in line. */
const HEAD = { position: 1, leftMs: -1, holderIsOurs: true };

/**
 * How long in ms a process waits after an answer before it asks again, for all its waiters of the lock. Without
 * messages it must ask within each claim. `random`, from 0 to 1, spreads processes that would ask at the same moment.
 *
 * @param answer The last one. A negative `leftMs` is unknown.
 */
export function nextAskDelayMs(
  { position, leftMs, holderIsOurs }: Pick<Queued, "position" | "leftMs" | "holderIsOurs">,
  { listens, isMute }: Pick<Inbox, "listens" | "isMute">,
  claimMs: number,
  random: number,
): number {
  const isHead = position === 1;
  let delayMs = HEARTBEAT_MS * (0.9 + 0.1 * random);
  if (!listens) delayMs = Math.min(delayMs, claimMs / 3);
  if (isHead) delayMs = Math.min(delayMs, holderIsOurs && !isMute ? HEAD_POLL_MS : UNTOLD_POLL_MS);
  if (leftMs >= 0) {
    // A dead holder notifies nobody, so ask once its lock has expired: the first in line before others.
    delayMs = Math.min(delayMs, leftMs + (isHead ? 1 : 20 + 20 * random));
  }
  return delayMs;
}

/**
 * The waiters of one `RedisLock` for one lock. One timer makes the foremost waiter ask the server, on behalf of all.
 * If the server does not know all of them, or is out of reach, each of them asks, spread over a second.
 */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #inbox: Pick<Inbox, "listens" | "isMute">;
  readonly #claimMs: number;
  /** In the order of their tickets: the foremost one asks, for an ask of a later one may not admit it. */
  readonly waiters: LinkedSet<Waiter> = new LinkedSet();
  #cancelTimer: (() => void) | null = null;
  #dueMs = Infinity;
  /** Set while all waiters ask, until the last asks should be answered. */
  #cancelRound: (() => void) | null = null;
  /** How many of the waiters want to share the lock. */
  #sharing = 0;
  /** Since when the server has known fewer waiters, and the timer of the second look. */
  #short: { readonly sinceMs: number; readonly cancelTimer: () => void } | null = null;
  #mapping: ClockMapping | null = null;

  constructor(clock: Clock, inbox: Pick<Inbox, "listens" | "isMute">, claimMs: number) {
    this.#clock = clock;
    this.#inbox = inbox;
    this.#claimMs = claimMs;
  }

  /** The clock mapping of the last answered ask; `null` if the connection has changed since. */
  clockMapping(epoch: number): ClockMapping | null {
    return this.#mapping?.sent.epoch === epoch ? this.#mapping : null;
  }

  /** Adds or keeps a waiter, after each answer that it is queued. Returns whether it has asked on behalf of all. */
  enqueue(waiter: Waiter, answer: Queued, mapping: ClockMapping): boolean {
    this.#mapping = mapping;
    const isRepeated = this.waiters.has(waiter);
    this.waiters.add(waiter, (last) => waiter.ticket < last.ticket);
    if (!isRepeated && waiter.leaseMode === "shared") this.#sharing++;
    if (waiter !== this.waiters.first) {
      this.#askIn({ ...answer, position: BEHIND.position });
      return false;
    }
    this.#disarm();
    this.#askIn(answer);
    return isRepeated;
  }

  dequeue(waiter: Waiter): void {
    if (!this.waiters.delete(waiter)) return;
    if (waiter.leaseMode === "shared") this.#sharing--;
    // The next waiter here may have become the first in the whole queue.
    if (this.waiters.size > 0) return this.#askIn(HEAD);
    this.#endRound();
    this.#forgetShort();
    this.#disarm();
  }

  /** Messages are lost for certain, or none comes any more: the next difference is believed at once. */
  onInboxChange(): void {
    if (this.#sharing > 0) {
      this.#forgetShort();
      this.#short = { sinceMs: -Infinity, cancelTimer: () => {} };
    }
    this.askNow();
  }

  /** Makes the foremost waiter ask now: messages may be lost. */
  askNow(): void {
    this.waiters.first?.onAskDue();
  }

  /**
   * Makes all waiters ask, spread over `SPREAD_MS`, if the server knows fewer than there are. If waiters may share
   * the lock, many grants may be under way at once: then only if a second look, `HEAD_POLL_MS` later, shows it, too.
   */
  compare(known: number): void {
    if (known >= this.waiters.size) return this.#forgetShort();
    const nowMs = this.#clock.now();
    if (this.#sharing > 0 && this.#short === null) {
      const cancelTimer = this.#clock.schedule(() => this.askNow(), HEAD_POLL_MS);
      this.#short = { sinceMs: nowMs, cancelTimer };
    } else if (this.#short === null || nowMs - this.#short.sinceMs >= HEAD_POLL_MS) {
      this.#forgetShort();
      this.#askAll((waiter) => waiter.onAskDue());
    }
  }

  #forgetShort(): void {
    this.#short?.cancelTimer();
    this.#short = null;
  }

  onOutage(): void {
    this.#askAll((waiter) => waiter.onOutage());
  }

  /** One round at a time, in the order of the tickets. */
  #askAll(ask: (waiter: Waiter) => void): void {
    if (this.#cancelRound !== null) return;
    this.#askFrom(0, [...this.waiters], ask);
  }

  #askFrom(start: number, inOrder: readonly Waiter[], ask: (waiter: Waiter) => void): void {
    const end = start + Math.max(MIN_STEP, Math.ceil(inOrder.length / STEPS));
    const isLast = end >= inOrder.length;
    this.#cancelRound = this.#clock.schedule(() => {
      if (isLast) this.#endRound();
      else this.#askFrom(end, inOrder, ask);
    }, isLast ? SPREAD_MS : SPREAD_MS / STEPS);
    for (const waiter of inOrder.slice(start, end)) if (this.waiters.has(waiter)) ask(waiter);
  }

  #endRound(): void {
    this.#cancelRound?.();
    this.#cancelRound = null;
  }

  #askIn(answer: Parameters<typeof nextAskDelayMs>[0], random: number = Math.random()): void {
    const delayMs = nextAskDelayMs(answer, this.#inbox, this.#claimMs, random);
    const dueMs = this.#clock.now() + delayMs;
    if (dueMs >= this.#dueMs) return;
    this.#disarm();
    this.#dueMs = dueMs;
    this.#cancelTimer = this.#clock.schedule(() => this.#fire(), delayMs);
  }

  #disarm(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#dueMs = Infinity;
  }

  #fire(): void {
    this.#disarm();
    this.askNow();
    // In case that waiter gives up before it is answered, a later one asks.
    this.#askIn(BEHIND, 1);
  }
}
