/**
 * The ask of one acquire call: its contents, its time limits and its outcome. How it is sent is in
 * `commands.ts`.
 *
 * @module
 */
import type { Instant } from "../../core/time/clock.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import type { LockKeys } from "./keys.ts";
import type { Owner } from "./owner_value.ts";
import type { AskAnswer } from "./replies.ts";

/** How long in ms after it was sent the server executes an ask. A later copy of it does nothing. */
export const ASK_LIFE_MS = 1_000;
/** How long in ms a tombstone refuses earlier asks: no copy of them is executed later than that. */
export const TOMBSTONE_MS: number = 2 * ASK_LIFE_MS;
/** Longest claim in ms: how long a grant from the queue lasts unless the waiter confirms it. */
export const MAX_CLAIM_MS = 3_000;

/** How a call asks for the lock: the modes of `ask.lua`, or a steal. */
export type AskMode =
  | { readonly kind: "wait" | "try" | "attach" }
  | { readonly kind: "steal"; readonly victimDigest: string };

/** The inbox that gets the grant message. Read when an ask is sent. */
export interface AskInbox {
  readonly id: string;
  /** Whether `PUBSUB NUMSUB` counts its subscriber. */
  readonly isCountable: boolean;
}

/** Is notified of what happens to each ask, however late. */
export interface AskListener {
  /**
   * The ask is being handed to the client. From now on the server may execute it.
   *
   * @param isDated Whether it carries a time limit.
   * @param sent The time now.
   */
  onHandOver(isDated: boolean, sent: Instant): void;
  /** The server has answered the ask. */
  onAnswer(result: AskResult): void;
  /**
   * The ask has failed.
   *
   * @param epoch The connection on which it was sent.
   */
  onFailure(error: unknown, epoch: number): void;
}

/** The asks of one call. One object serves all of them, and the call updates it. */
export interface Ask {
  readonly keys: LockKeys;
  readonly owner: Owner;
  readonly ttlMs: number;
  readonly mode: AskMode;
  readonly inbox: AskInbox;
  /** Bounds the wait for an answer, which begins when the ask is handed to the client. */
  readonly budget: OutageBudget;
  readonly listener: AskListener;
  /** The ticket of the first answer; 0 before that. */
  ticket: number;
  /** Whether the call still wants the lock. If not, an ask that is not sent yet is never sent. */
  isWanted: boolean;
}

/** The answer to an ask, with the time and the connection of the ask. */
export interface AskResult {
  readonly answer: AskAnswer;
  readonly sent: Instant;
  readonly epoch: number;
  /** Whether the ask was executed exactly once, as the connection has not changed. */
  readonly isClean: boolean;
  /** Whether the ask carried a time limit. */
  readonly isDated: boolean;
}
