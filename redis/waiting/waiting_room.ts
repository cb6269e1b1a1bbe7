/**
 * The waiters of one `RedisLock` that are queued for the same lock. One timer makes the foremost waiter
 * ask the server, on behalf of all of them. The delays are in `ask_delay.ts`.
 *
 * @module
 */
import type { Clock } from "../../core/clock.ts";
import type { AskResult } from "../protocol/commands.ts";
import type { Queued } from "../protocol/replies.ts";
import { BEHIND, HEAD, nextAskDelayMs, type Place } from "./ask_delay.ts";
import type { ClockMapping } from "./claim_start.ts";
import type { Inbox } from "./inbox.ts";
import type { Waiter } from "./waiter.ts";

/** The local waiters of one lock, with one timer for all. */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #inbox: Inbox;
  readonly #claimMs: number;
  readonly #waiters = new Set<Waiter>();
  #cancelTimer: (() => void) | null = null;
  #dueMs = Infinity;
  /** How many answers in a row counted fewer waiters in the server's queue than there are here. */
  #shortfalls = 0;
  /** The clock mapping of the last answered ask, and the connection of that ask. */
  #mapping: ClockMapping & { readonly epoch: number } | null = null;

  constructor(clock: Clock, inbox: Inbox, claimMs: number) {
    this.#clock = clock;
    this.#inbox = inbox;
    this.#claimMs = claimMs;
  }

  /** Whether no waiter is left. */
  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  /** The clock mapping of the last answered ask; `null` if the connection has changed since. */
  clockMapping(epoch: number): ClockMapping | null {
    return this.#mapping?.epoch === epoch ? this.#mapping : null;
  }

  /** Adds a waiter, or keeps it, after each answer that it is in the server's queue. Sets the timer. */
  enqueue(waiter: Waiter, answer: Queued, { sent, epoch }: AskResult): void {
    this.#mapping = { sent, serverMs: answer.serverMs, epoch };
    this.#waiters.add(waiter);
    if (waiter !== this.#foremost()) {
      this.#askIn({ ...answer, position: BEHIND.position });
      return;
    }
    this.#disarm();
    this.#askIn(answer);
    const known = answer.inboxWaiters + (answer.ownHolder === null ? 0 : 1);
    const isShort = known < this.#waiters.size;
    this.#shortfalls = isShort ? this.#shortfalls + 1 : 0;
    // The server has lost some waiters. Once is normal: a grant whose message is still under way.
    if (this.#shortfalls >= 2) this.askAll();
  }

  /** Removes a waiter, with a grant or without. */
  dequeue(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    if (this.isEmpty) return this.#disarm();
    // The next waiter here may have become the first in the whole queue.
    this.#askIn(HEAD);
  }

  /** Makes all waiters ask again, in the order of their tickets: messages or the queue may be lost. */
  askAll(): void {
    this.#shortfalls = 0;
    const inOrder = [...this.#waiters].sort((a, b) => a.ticket - b.ticket);
    for (const waiter of inOrder) waiter.onAskDue();
  }

  /** Tells all waiters that Redis is unavailable. */
  failAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.onUnavailable(error);
  }

  /** The waiter that was added first. It need not have the lowest ticket, since any waiter can ask for all. */
  #foremost(): Waiter | undefined {
    return this.#waiters.values().next().value;
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
    this.#foremost()?.onAskDue();
    // In case that waiter gives up before it is answered, a later one asks.
    this.#askIn(BEHIND, 1);
  }
}
