import type { LeaseEngine } from "../../core/lease/lease_engine.ts";
import type { HeldLeases } from "../held_leases.ts";
import { MAX_CLAIM_MS, type Queued, TOMBSTONE_MS } from "../protocol/wire.ts";
import type { RedisCommands } from "../protocol/commands.ts";
import { hasSameOwnerId, type LockKeys, lockKeys } from "../protocol/keys.ts";
import type { InboxMessage } from "../protocol/messages.ts";
import type { ClockMapping } from "../protocol/server_clocks.ts";
import { unwatchAbort, watchAbort } from "../../core/time/abort_watch.ts";
import { Inbox, type InboxListener } from "./inbox.ts";
import { type Waiter, WaitingRoom } from "./waiting_room.ts";

/**
 * All calls of one `RedisLock` that ask or wait, their common inbox, and a waiting room per lock: passes each message
 * to its waiter. How a waiter acts on it is in `acquisition.ts`.
 */
export class Waiters implements InboxListener {
  /** The inbox that all asks of this instance name. */
  readonly inbox: Inbox;
  readonly #commands: RedisCommands;
  readonly #engine: LeaseEngine;
  readonly #held: HeldLeases;
  readonly #claimMs: number;
  /** By owner value. Calls of `redlock/` for several locks share one. */
  readonly #waiters = new Map<string, Waiter>();
  /** By lock key. A lock without queued calls has no room. */
  readonly #rooms = new Map<string, WaitingRoom>();

  constructor(
    commands: RedisCommands,
    engine: LeaseEngine,
    held: HeldLeases,
    warn: (message: string) => void,
    ttlMs: number,
  ) {
    this.inbox = new Inbox(commands.client, engine.clock, warn, this);
    this.#commands = commands;
    this.#engine = engine;
    this.#held = held;
    this.#claimMs = Math.min(ttlMs, MAX_CLAIM_MS);
  }

  /** Passes messages for the waiter's owner value to it from now on. The caller's signal ends the call. */
  add(waiter: Waiter, signal?: AbortSignal): void {
    this.#waiters.set(waiter.value, waiter);
    if (signal !== undefined) watchAbort(signal, waiter);
  }

  /** Forgets a waiter that has a lease, or gave up. A later grant without a lease is released for the next waiter. */
  remove(waiter: Waiter, signal?: AbortSignal): void {
    if (this.#waiters.get(waiter.value) === waiter) this.#waiters.delete(waiter.value);
    if (signal !== undefined) unwatchAbort(signal, waiter);
    this.dequeue(waiter);
  }

  /** Takes a waiter out of its waiting room, if it is in one: the server no longer has it in the queue. */
  dequeue(waiter: Waiter): void {
    const room = this.#rooms.get(waiter.keys.lock);
    if (room === undefined) return;
    room.dequeue(waiter);
    if (room.waiters.size === 0) this.#rooms.delete(waiter.keys.lock);
  }

  /** Puts a waiter into its waiting room, after each answer that it is in the queue. Opens the inbox. */
  enqueue(waiter: Waiter, answer: Queued, mapping: ClockMapping): void {
    const { lock } = waiter.keys;
    let room = this.#rooms.get(lock);
    if (room === undefined) {
      room = new WaitingRoom(this.#engine.clock, this.inbox, this.#claimMs);
      this.#rooms.set(lock, room);
    }
    const isForAll = room.enqueue(waiter, answer, mapping);
    if (isForAll) this.#compare(room, lock, answer);
    this.inbox.open();
  }

  /** The server's queue differs from the waiters here if grant messages were lost, or if it has lost waiters. */
  #compare(room: WaitingRoom, lockKey: string, { inboxWaiters, ownHolder }: Queued): void {
    if (ownHolder === null) return room.compare(inboxWaiters);
    const holder = this.#waiterOf(lockKey, ownHolder);
    if (holder === undefined) this.#leave(lockKey, ownHolder);
    const isWaiting = holder !== undefined && room.waiters.has(holder);
    if (isWaiting) holder.onAskDue(); // it has no lease yet: its answer grants one
    room.compare(inboxWaiters + (isWaiting ? 1 : 0));
  }

  /** The foremost waiter of a lock asks: its holder here has found the lock gone. */
  askNow(lockKey: string): void {
    this.#rooms.get(lockKey)?.askNow();
  }

  /** If the server knows fewer others than wait here, its queue is lost: all ask, to be back before new callers. */
  onAnsweredGrant(waiter: Waiter, otherWaiters: number): void {
    const room = this.#rooms.get(waiter.keys.lock);
    room?.compare(otherWaiters + (room.waiters.has(waiter) ? 1 : 0));
  }

  /**
   * Maps the server's clock to ours, by the last answer for this lock. `null` if the connection has
   * changed since, and in a cluster: the lock may have moved to a node with another clock.
   */
  clockMapping({ lock }: LockKeys): ClockMapping | null {
    const { cluster, epoch } = this.#commands.client;
    return cluster ? null : this.#rooms.get(lock)?.clockMapping(epoch) ?? null;
  }

  /** After a call found Redis unavailable, the other queued ones for its lock ask: each fails by its own ask only. */
  reportOutage(waiter: Waiter): void {
    const room = this.#rooms.get(waiter.keys.lock);
    if (room?.waiters.has(waiter)) room.onOutage();
  }

  /** Wakes all waiters at disposal. Thousands of listeners on one `AbortSignal` would be slow. */
  disposeAll(): void {
    for (const waiter of [...this.#waiters.values()]) waiter.onAborted();
  }

  onInboxMessage(message: InboxMessage): void {
    const { lockKey, value } = message;
    const waiter = this.#waiterOf(lockKey, value);
    if (message.kind === "grant") {
      // Of a waiter that has left, the mode is not known: shared leases find out by their next renewal.
      const { leaseMode = "shared" } = waiter ?? {};
      this.#held.onGrant(lockKey, { value, leaseMode }, message.fencingToken);
    }
    if (waiter !== undefined) waiter.onMessage(message);
    else if (message.kind === "grant") this.#leave(lockKey, value);
    else if (message.kind === "stolen") this.#held.onStolen(lockKey, value);
  }

  /** A message names both: it may be late, and its call may wait for another lock by now. */
  #waiterOf(lockKey: string, value: string): Waiter | undefined {
    const waiter = this.#waiters.get(value);
    return waiter?.keys.lock === lockKey ? waiter : undefined;
  }

  onInboxChange(): void {
    for (const room of this.#rooms.values()) room.onInboxChange();
  }

  /**
   * Releases a lock that was granted to a call that has left: the next waiter gets it. While another call
   * of the same owner id asks, the lock is kept, because that call may take it over.
   */
  #leave(lockKey: string, value: string): void {
    if (this.#held.has(lockKey, value)) return; // a copy of the grant for which there is a lease
    // No other call has an owner id that was made here.
    const isChosen = !value.endsWith(this.inbox.nonce);
    const keepsLock = isChosen &&
      [...this.#waiters.values()].some((waiter) =>
        waiter.keys.lock === lockKey && hasSameOwnerId(waiter.value, value)
      );
    this.#engine.background.run(async () => {
      await this.#commands.leave(lockKeys("", lockKey), value, TOMBSTONE_MS, keepsLock);
    });
  }
}
