/**
 * All waiters of one instance, its inbox, and its waiting rooms: how a grant finds its waiter. How a
 * waiter acts on a grant belongs to the acquisition.
 *
 * @module
 */
import type { LeaseEngine } from "../../core/lease_engine.ts";
import type { RedisClient } from "../client.ts";
import {
  type AskResult,
  MAX_CLAIM_MS,
  type RedisCommands,
  TOMBSTONE_MS,
} from "../protocol/commands.ts";
import { type LockKeys, lockKeys } from "../protocol/keys.ts";
import type { GrantMessage, InboxMessage } from "../protocol/messages.ts";
import type { Queued } from "../protocol/replies.ts";
import type { Warnings } from "../protocol/warnings.ts";
import type { ClockMapping } from "./claim_start.ts";
import { Inbox, type InboxListener } from "./inbox.ts";
import type { Waiter } from "./waiter.ts";
import { WaitingRoom } from "./waiting_room.ts";

/** What {@linkcode Waiters} needs. */
export interface WaitersOptions {
  readonly client: RedisClient;
  readonly commands: RedisCommands;
  readonly engine: LeaseEngine;
  readonly warnings: Warnings;
  /** The TTL of the instance in ms. */
  readonly ttlMs: number;
}

/** The waiters of one instance. */
export class Waiters implements InboxListener {
  readonly #commands: RedisCommands;
  readonly #engine: LeaseEngine;
  readonly #inbox: Inbox;
  readonly #claimMs: number;
  /** Every call that has not left, by its owner value. Holders get messages too. */
  readonly #waiters = new Map<string, Waiter>();
  /** By lock key. A lock for which no call is queued has no room. */
  readonly #rooms = new Map<string, WaitingRoom>();

  constructor({ client, commands, engine, warnings, ttlMs }: WaitersOptions) {
    this.#commands = commands;
    this.#engine = engine;
    this.#inbox = new Inbox(client, engine.clock, warnings, this);
    this.#claimMs = Math.min(ttlMs, MAX_CLAIM_MS);
  }

  /** Where grants are published for the waiters of this instance. */
  get inbox(): Pick<Inbox, "id" | "isCountable"> {
    return this.#inbox;
  }

  /** From now on the waiter gets the messages for its owner value. */
  register(waiter: Waiter): void {
    this.#waiters.set(waiter.value, waiter);
  }

  /** From now on a grant to this owner value goes to the next waiter in the queue. */
  unregister(value: string): void {
    this.#waiters.delete(value);
  }

  /** The server has answered that the waiter is in its queue. Opens the inbox. */
  enqueue(waiter: Waiter, answer: Queued, result: AskResult): void {
    const { lock } = waiter.keys;
    let room = this.#rooms.get(lock);
    if (room === undefined) {
      room = new WaitingRoom(this.#engine.clock, this.#inbox, this.#claimMs);
      this.#rooms.set(lock, room);
    }
    room.enqueue(waiter, answer, result);
    this.#inbox.open();
  }

  /** The waiter waits no more. Does nothing if it was never queued. */
  dequeue(waiter: Waiter): void {
    const { lock } = waiter.keys;
    const room = this.#rooms.get(lock);
    room?.dequeue(waiter);
    if (room?.isEmpty) this.#rooms.delete(lock);
  }

  /**
   * The server's clock as the last answer for this lock has shown it. `null` if the connection has
   * changed since, and in a cluster: the lock may have moved to a node with another clock.
   */
  clockMapping({ lock }: LockKeys): ClockMapping | null {
    const { cluster, epoch } = this.#commands;
    return cluster ? null : this.#rooms.get(lock)?.clockMapping(epoch) ?? null;
  }

  /** A call for this lock has found that Redis is unavailable: ends the wait of all others. */
  failAll({ lock }: LockKeys, error: unknown): void {
    this.#rooms.get(lock)?.failAll(error);
  }

  /** Wakes all waiters at disposal. Listening to one signal would be slow with thousands of them. */
  disposeAll(): void {
    for (const waiter of this.#waiters.values()) waiter.onDisposed();
  }

  /** Closes the inbox. Called after all waiters have left. */
  async close(): Promise<void> {
    await this.#inbox.close();
  }

  /** Implements {@linkcode InboxListener}. */
  onInboxMessage(message: InboxMessage): void {
    const waiter = this.#waiters.get(message.value);
    if (waiter !== undefined) waiter.onMessage(message);
    else if (message.kind === "grant") this.#handOn(message);
  }

  /** Implements {@linkcode InboxListener}. */
  onInboxChange(): void {
    for (const room of this.#rooms.values()) room.askAll();
  }

  /** Gives back a lock that was granted to a call that has left. The next waiter gets it. */
  #handOn({ lockKey, value }: GrantMessage): void {
    this.#engine.background.run(async () => {
      await this.#commands.leave(lockKeys("", lockKey), value, TOMBSTONE_MS, false);
    });
  }
}
