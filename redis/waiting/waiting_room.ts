/**
 * Those who wait for one lock in this instance. The foremost asks, for all of them.
 *
 * @module
 */
import type { Clock } from "../../core/clock.ts";
import type { Asked } from "../protocol/commands.ts";
import type { LockKeys } from "../protocol/keys.ts";
import type { Queued } from "../protocol/replies.ts";
import { type ClockMapping, nextAskMs, type WaitMode } from "./schedule.ts";

/** One who waits. */
export interface Waiter {
  /** The place in line that the server gave it first. */
  readonly ticket: number;
  /** It shall ask again. */
  ask(): void;
  /** Its wait cannot go on. */
  fail(error: unknown): void;
}

/** The local waiters of one lock, on one timer. */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #mode: () => WaitMode;
  readonly #waiters = new Set<Waiter>();
  #cancelTimer: (() => void) | null = null;
  #dueMs = Infinity;
  /** How often in a row the server knew fewer of us than there are. */
  #shortfalls = 0;
  /** The last answered ask and its connection. */
  #mapping: ClockMapping & { readonly epoch: number } | null = null;

  constructor(clock: Clock, mode: () => WaitMode) {
    this.#clock = clock;
    this.#mode = mode;
  }

  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  /** What is known of the server's clock, if the connection is still the same. */
  mapping(epoch: number): ClockMapping | null {
    return this.#mapping?.epoch === epoch ? this.#mapping : null;
  }

  /** A waiter was told its place. */
  queue(waiter: Waiter, answer: Queued, { sent, epoch }: Asked): void {
    this.#mapping = { sent, serverMs: answer.serverMs, epoch };
    this.#waiters.add(waiter);
    const foremost = this.#foremost();
    if (waiter !== foremost) {
      this.#arm(nextAskMs({ ...answer, position: Infinity }, this.#mode(), Math.random()));
      return;
    }
    this.#disarm();
    this.#arm(nextAskMs(answer, this.#mode(), Math.random()));
    const isShort = answer.known >= 0 && answer.known < this.#waiters.size;
    this.#shortfalls = isShort ? this.#shortfalls + 1 : 0;
    // Once may be a grant whose message is under way.
    if (this.#shortfalls >= 2) this.askAll();
  }

  /** A waiter has gone, with a grant or without. */
  leave(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    if (this.isEmpty) return this.#disarm();
    // The next one may be the first in line now.
    const head = { position: 1, leftMs: -1, holderIsOurs: true };
    this.#arm(nextAskMs(head, this.#mode(), Math.random()));
  }

  /** Everybody asks again, in order: messages, or the queue itself, may have been lost. */
  askAll(): void {
    this.#shortfalls = 0;
    const inOrder = [...this.#waiters].sort((a, b) => a.ticket - b.ticket);
    for (const waiter of inOrder) waiter.ask();
  }

  /** The server is out of reach: that concerns all. */
  failAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.fail(error);
  }

  /** They came in the order of their tickets, but for rare cases in which any of them will do. */
  #foremost(): Waiter | undefined {
    return this.#waiters.values().next().value;
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
    this.#foremost()?.ask();
    // If that one gives up without an answer, the next one's turn comes.
    this.#arm(nextAskMs({ position: Infinity, leftMs: -1, holderIsOurs: true }, this.#mode(), 1));
  }
}

/** The waiting rooms of one instance. A lock for which nobody waits has none. */
export class WaitingRooms {
  readonly #rooms = new Map<string, WaitingRoom>();
  readonly #clock: Clock;
  readonly #mode: () => WaitMode;

  constructor(clock: Clock, mode: () => WaitMode) {
    this.#clock = clock;
    this.#mode = mode;
  }

  /** The room of a lock, if anybody waits for it. */
  get({ lock }: LockKeys): WaitingRoom | undefined {
    return this.#rooms.get(lock);
  }

  /** The room of a lock. */
  of(keys: LockKeys): WaitingRoom {
    let room = this.get(keys);
    if (room === undefined) {
      room = new WaitingRoom(this.#clock, this.#mode);
      this.#rooms.set(keys.lock, room);
    }
    return room;
  }

  /** A waiter goes; the last one closes the room. */
  leave(keys: LockKeys, waiter: Waiter): void {
    const room = this.get(keys);
    room?.leave(waiter);
    if (room?.isEmpty) this.#rooms.delete(keys.lock);
  }

  /** Everybody asks again. */
  askAll(): void {
    for (const room of this.#rooms.values()) room.askAll();
  }
}
