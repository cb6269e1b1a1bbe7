/**
 * What the waiting rooms know of an acquire call, and the events that they report to it.
 *
 * @module
 */
import type { LockKeys } from "../protocol/keys.ts";
import type { InboxMessage } from "../protocol/messages.ts";

/** A call that waits for a lock, or that holds it. Its methods do not send anything themselves. */
export interface Waiter {
  readonly keys: LockKeys;
  /** The owner value of the call. A message names the call by it. */
  readonly value: string;
  /** The ticket of the call's first place in the queue. */
  readonly ticket: number;
  /** A message for this owner value has come. */
  onMessage(message: InboxMessage): void;
  /** It is time to ask the server again. */
  onAskDue(): void;
  /** Another waiter of this lock has found that Redis is unavailable. */
  onUnavailable(error: unknown): void;
  /** The instance was disposed. */
  onDisposed(): void;
}
