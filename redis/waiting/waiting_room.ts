/**
 * The waiters of one `RedisLock` that are queued for the same lock. One timer makes the foremost waiter
 * ask the server, on behalf of all of them. The delays are in `ask_delay.ts`.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";
import { LinkedSet } from "../../core/lease/linked_set.ts";
import type { AskResult } from "../protocol/ask.ts";
import type { Queued } from "../protocol/replies.ts";
import { BEHIND, HEAD, nextAskDelayMs, type Place } from "./ask_delay.ts";
import { AskRound } from "./ask_round.ts";
import type { ClockMapping } from "./claim_start.ts";
import type { Inbox } from "./inbox.ts";
import type { Waiter } from "./waiter.ts";

/** The local waiters of one lock, with one timer for all. */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #inbox: Pick<Inbox, "listens">;
  readonly #claimMs: number;
  readonly #waiters = new LinkedSet<Waiter>();
  readonly #round: AskRound;
  #cancelTimer: (() => void) | null = null;
  #dueMs = Infinity;
  /** The clock mapping of the last answered ask, and the connection of that ask. */
  #mapping: ClockMapping & { readonly epoch: number } | null = null;

  constructor(clock: Clock, inbox: Pick<Inbox, "listens">, claimMs: number) {
    this.#clock = clock;
    this.#inbox = inbox;
    this.#claimMs = claimMs;
    this.#round = new AskRound(clock);
  }

  /** Whether no waiter is left. */
  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  /** Whether a call is queued here: it has no lease yet. */
  has(waiter: Waiter): boolean {
    return this.#waiters.has(waiter);
  }

  /** The clock mapping of the last answered ask; `null` if the connection has changed since. */
  clockMapping(epoch: number): ClockMapping | null {
    return this.#mapping?.epoch === epoch ? this.#mapping : null;
  }

  /**
   * Adds a waiter, or keeps it, after each answer that it is in the server's queue. Sets the timer.
   * Returns whether the waiter has asked again on behalf of all waiters here: then its answer shows
   * whether the server knows them.
   */
  enqueue(waiter: Waiter, answer: Queued, { sent, epoch }: AskResult): boolean {
    this.#mapping = { sent, serverMs: answer.serverMs, epoch };
    const isRepeated = this.#waiters.has(waiter);
    this.#waiters.add(waiter);
    if (waiter !== this.#waiters.first) {
      this.#askIn({ ...answer, position: BEHIND.position });
      return false;
    }
    this.#disarm();
    this.#askIn(answer);
    return isRepeated;
  }

  /** Removes a waiter, with a grant or without. */
  dequeue(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    if (this.isEmpty) {
      this.#round.stop();
      return this.#disarm();
    }
    // The next waiter here may have become the first in the whole queue.
    this.#askIn(HEAD);
  }

  /** Makes the foremost waiter ask now: messages may be lost. Its answer shows what is missing. */
  askNow(): void {
    this.#waiters.first?.onAskDue();
  }

  /**
   * Makes all waiters ask, spread over `SPREAD_MS`, if the server knows fewer than there are.
   *
   * @param known How many of the waiters here the server knows.
   */
  compare(known: number): void {
    if (known >= this.#waiters.size) return;
    this.#round.start(this.#waiters, (waiter) => this.has(waiter) && waiter.onAskDue());
  }

  /** Makes all waiters ask, spread over `SPREAD_MS`: one of them found that Redis is unavailable. */
  onOutage(): void {
    this.#round.start(this.#waiters, (waiter) => this.has(waiter) && waiter.onOutage());
  }

  #askIn(place: Place, random: number = Math.random()): void {
    const mode = { listens: this.#inbox.listens, claimMs: this.#claimMs };
    this.#arm(nextAskDelayMs(place, mode, random));
  }

  #arm(delayMs: number): void {
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
