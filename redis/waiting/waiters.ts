/**
 * All waiters of one `RedisLock`, their common inbox, and a waiting room per lock: passes each message
 * to its waiter. How a waiter acts on a message is in `acquisition.ts`.
 *
 * @module
 */
import { Bag } from "./bag.ts";
import type { LeaseEngine } from "../../core/lease/lease_engine.ts";
import type { Warnings } from "../../core/contract/warnings.ts";
import type { RedisClient } from "../client.ts";
import type { HeldLeases } from "./held_leases.ts";
import { type AskResult, MAX_CLAIM_MS, TOMBSTONE_MS } from "../protocol/ask.ts";
import type { RedisCommands } from "../protocol/commands.ts";
import { type LockKeys, lockKeys } from "../protocol/keys.ts";
import type { InboxMessage } from "../protocol/messages.ts";
import type { Queued } from "../protocol/replies.ts";
import type { ClockMapping } from "./claim_start.ts";
import { Inbox, type InboxListener } from "./inbox.ts";
import type { Waiter } from "./waiter.ts";
import { WaitingRoom } from "./waiting_room.ts";

/** Options of {@linkcode Waiters}. */
export interface WaitersOptions {
  readonly client: RedisClient;
  readonly commands: RedisCommands;
  readonly engine: LeaseEngine;
  readonly warnings: Warnings;
  readonly held: HeldLeases;
  /** The TTL of the instance in ms. */
  readonly ttlMs: number;
}

/** The waiters of one `RedisLock`. */
export class Waiters implements InboxListener {
  readonly #commands: RedisCommands;
  readonly #engine: LeaseEngine;
  readonly #inbox: Inbox;
  readonly #held: HeldLeases;
  readonly #claimMs: number;
  /** The calls that were never in the queue. They rarely get messages, so these look for them one by one. */
  readonly #asking = new Bag<Waiter>();
  /** The calls that were in the queue, by owner value. */
  readonly #queued = new Map<string, Waiter>();
  /** By lock key. A lock without queued calls has no room. */
  readonly #rooms = new Map<string, WaitingRoom>();

  constructor({ client, commands, engine, warnings, held, ttlMs }: WaitersOptions) {
    this.#commands = commands;
    this.#engine = engine;
    this.#inbox = new Inbox(client, engine.clock, warnings, this);
    this.#held = held;
    this.#claimMs = Math.min(ttlMs, MAX_CLAIM_MS);
  }

  /** The inbox that all asks of this instance name. */
  get inbox(): Pick<Inbox, "id" | "nonce" | "isCountable"> {
    return this.#inbox;
  }

  /** Passes messages for the waiter's owner value to it from now on. */
  register(waiter: Waiter): void {
    this.#asking.add(waiter);
  }

  /**
   * Forgets a waiter that has a lease, or has given up. From now on a grant for which there is no lease is
   * released for the next waiter in the queue.
   */
  unregister(waiter: Waiter): void {
    this.#asking.delete(waiter);
    if (this.#queued.delete(waiter.value)) this.#dequeue(waiter);
  }

  #find(value: string): Waiter | undefined {
    const queued = this.#queued.get(value);
    if (queued !== undefined) return queued;
    for (const waiter of this.#asking) if (waiter.value === value) return waiter;
    return undefined;
  }

  /** Puts a waiter into its waiting room, after each answer that it is in the queue. Opens the inbox. */
  enqueue(waiter: Waiter, answer: Queued, result: AskResult): void {
    const { lock } = waiter.keys;
    this.#asking.delete(waiter);
    this.#queued.set(waiter.value, waiter);
    let room = this.#rooms.get(lock);
    if (room === undefined) {
      room = new WaitingRoom(this.#engine.clock, this.#inbox, this.#claimMs);
      this.#rooms.set(lock, room);
    }
    const isForAll = room.enqueue(waiter, answer, result);
    if (isForAll) this.#compare(room, waiter.keys, answer);
    this.#inbox.open();
  }

  /**
   * Compares the server's queue with the waiters here. Grants whose messages were lost, and waiters
   * that the server has lost, show as a difference. Without one nobody else needs to ask.
   */
  #compare(room: WaitingRoom, { lock }: LockKeys, { inboxWaiters, ownHolder }: Queued): void {
    if (ownHolder === null) return room.compare(inboxWaiters);
    const holder = this.#find(ownHolder);
    if (holder === undefined) this.#handOn(lock, ownHolder);
    const isWaiting = holder !== undefined && room.has(holder);
    if (isWaiting) holder.onAskDue(); // it has no lease yet: its answer grants one
    room.compare(inboxWaiters + (isWaiting ? 1 : 0));
  }

  #dequeue(waiter: Waiter): void {
    const { lock } = waiter.keys;
    const room = this.#rooms.get(lock);
    room?.dequeue(waiter);
    if (room?.isEmpty) this.#rooms.delete(lock);
  }

  /**
   * Maps the server's clock to ours, by the last answer for this lock. `null` if the connection has
   * changed since, and in a cluster: the lock may have moved to a node with another clock.
   */
  clockMapping({ lock }: LockKeys): ClockMapping | null {
    const { cluster, epoch } = this.#commands;
    return cluster ? null : this.#rooms.get(lock)?.clockMapping(epoch) ?? null;
  }

  /**
   * Makes the other queued calls for a lock ask, after one of them found that Redis is unavailable: each
   * call fails by its own ask only.
   */
  reportOutage(waiter: Waiter): void {
    const room = this.#rooms.get(waiter.keys.lock);
    if (room?.has(waiter)) room.onOutage();
  }

  /** Wakes all waiters at disposal. Thousands of listeners on one `AbortSignal` would be slow. */
  disposeAll(): void {
    for (const waiter of [...this.#asking, ...this.#queued.values()]) waiter.onAborted();
  }

  /** Closes the inbox. Called after all waiters have left. */
  async close(): Promise<void> {
    await this.#inbox.close();
  }

  /** Implements {@linkcode InboxListener}. */
  onInboxMessage(message: InboxMessage): void {
    if (message.kind === "grant") {
      this.#held.onGrant(message.lockKey, message.value, message.fencingToken);
    }
    const waiter = this.#find(message.value);
    if (waiter !== undefined) waiter.onMessage(message);
    else if (message.kind === "grant") this.#handOn(message.lockKey, message.value);
    else if (message.kind === "stolen") this.#held.onStolen(message.lockKey, message.value);
  }

  /** Implements {@linkcode InboxListener}. */
  onInboxChange(): void {
    for (const room of this.#rooms.values()) room.askNow();
  }

  /** Releases a lock that was granted to a call that has left. The next waiter gets it. */
  #handOn(lockKey: string, value: string): void {
    if (this.#held.has(lockKey, value)) return; // a copy of the grant for which there is a lease
    this.#engine.background.run(async () => {
      await this.#commands.leave(lockKeys("", lockKey), value, TOMBSTONE_MS, false);
    });
  }
}
