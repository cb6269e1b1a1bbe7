/**
 * The queued waiters of one lock in one instance. Only the foremost asks the server, for all of them.
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

/** The local waiters of one lock, on one timer. */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #inbox: Inbox;
  readonly #claimMs: number;
  readonly #waiters = new Set<Waiter>();
  #cancelTimer: (() => void) | null = null;
  #dueMs = Infinity;
  /** How often in a row the server knew fewer waiters than there are here. */
  #shortfalls = 0;
  /** The last answered ask and its connection. */
  #mapping: ClockMapping & { readonly epoch: number } | null = null;

  constructor(clock: Clock, inbox: Inbox, claimMs: number) {
    this.#clock = clock;
    this.#inbox = inbox;
    this.#claimMs = claimMs;
  }

  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  /** What is known of the server's clock, if the connection is still the same. */
  clockMapping(epoch: number): ClockMapping | null {
    return this.#mapping?.epoch === epoch ? this.#mapping : null;
  }

  /** The server has answered that the waiter is in its queue: for the first time, or still. */
  enqueue(waiter: Waiter, answer: Queued, { sent, epoch }: AskResult): void {
    this.#mapping = { sent, serverMs: answer.serverMs, epoch };
    this.#waiters.add(waiter);
    if (waiter !== this.#foremost()) {
      this.#askIn({ ...answer, position: BEHIND.position });
      return;
    }
    this.#disarm();
    this.#askIn(answer);
    const isShort = answer.known >= 0 && answer.known < this.#waiters.size;
    this.#shortfalls = isShort ? this.#shortfalls + 1 : 0;
    // A single shortfall may be a grant whose message is under way.
    if (this.#shortfalls >= 2) this.askAll();
  }

  /** A waiter waits no more, with a grant or without. */
  dequeue(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    if (this.isEmpty) return this.#disarm();
    // The next waiter may be the first in line now.
    this.#askIn(HEAD);
  }

  /** Makes every waiter ask again, in order: messages or the server's queue may be lost. */
  askAll(): void {
    this.#shortfalls = 0;
    const inOrder = [...this.#waiters].sort((a, b) => a.ticket - b.ticket);
    for (const waiter of inOrder) waiter.onAskDue();
  }

  /** Redis is unavailable, which concerns every waiter. */
  failAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.onUnavailable(error);
  }

  /** The waiter that came first: nearly always the lowest ticket. If not, any other is as good. */
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
    // If that waiter gives up without an answer, the next one asks.
    this.#askIn(BEHIND, 1);
  }
}
