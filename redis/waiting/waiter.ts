/**
 * An acquire call as the waiting rooms see it, and the events that they report to it.
 *
 * @module
 */
import type { Bagged } from "./bag.ts";
import type { LockKeys } from "../protocol/keys.ts";
import type { InboxMessage } from "../protocol/messages.ts";

/** A call that asks for a lock or waits for it. Its event methods send nothing themselves. */
export interface Waiter extends Bagged {
  readonly keys: LockKeys;
  /** The owner value of the call. Messages name their receiver by it. */
  readonly value: string;
  /** The ticket that the call's first answer gave it. It keeps this place in the queue. */
  readonly ticket: number;
  /** A message for this owner value has arrived. */
  onMessage(message: InboxMessage): void;
  /** It is time to ask the server again. */
  onAskDue(): void;
  /** The same, because another waiter of this lock has given up: Redis seems to be unavailable. */
  onOutage(): void;
  /** The instance is being disposed. */
  onAborted(): void;
}
