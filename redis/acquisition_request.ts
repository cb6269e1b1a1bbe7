/**
 * What an acquisition is asked for, and what it is asked of.
 *
 * @module
 */
import type { WaitInfo } from "../core/distributed_lock.ts";
import type { LeaseEngine } from "../core/lease_engine.ts";
import type { AskMode, RedisCommands } from "./protocol/commands.ts";
import type { Inbox } from "./waiting/inbox.ts";
import type { LockKeys } from "./protocol/keys.ts";
import type { Owner } from "./protocol/owner_value.ts";
import type { OutageBudget } from "../core/outage_budget.ts";
import type { InboxMessage } from "./protocol/messages.ts";
import type { LeaveAnswer } from "./protocol/replies.ts";
import type { WaitingRooms } from "./waiting/waiting_room.ts";

/** Who gets the messages for an owner value. */
export interface Receiver {
  /** A message has come. */
  receive(message: InboxMessage): void;
  /** Its wait cannot go on. */
  fail(error: unknown): void;
}

/** What the acquisitions of one instance share. */
export interface AcquisitionHost {
  readonly engine: LeaseEngine;
  readonly commands: RedisCommands;
  readonly inbox: Inbox;
  readonly rooms: WaitingRooms;
  /** Who gets the messages for an owner value. */
  readonly receivers: Map<string, Receiver>;
  /** Gives the lock back, unless it is to stay, and leaves the queue, as the options say. */
  leave(keys: LockKeys, value: string, tombstoneMs: number, keeps?: boolean): Promise<LeaveAnswer>;
}

/** What the caller wants. */
export interface AcquisitionRequest {
  readonly name: string;
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  readonly autoRenew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly outlivesDisposal: boolean;
  readonly budget: OutageBudget;
  /** The caller's own signal and disposal. */
  readonly signal: AbortSignal;
  /** The caller's own signal. */
  readonly ownSignal: AbortSignal | undefined;
  readonly onWait: (info: WaitInfo) => void;
  /** Called when the lease is given back or lost. */
  readonly onEnd: (() => void) | undefined;
}
