/**
 * The inbox: the channel on which one `RedisLock` receives its messages. It is opened when a call first
 * has to wait. Which waiter a message is for is not known here.
 *
 * @module
 */
import { outside } from "../../core/lease/tracing.ts";
import { type Clock, pause } from "../../core/time/clock.ts";
import type { Warnings } from "../../core/contract/warnings.ts";
import type { RedisClient } from "../client.ts";
import { INBOX_CHANNEL_PREFIX, makeNonce } from "../protocol/keys.ts";
import { decodeMessage, type InboxMessage } from "../protocol/messages.ts";
import { refusalOf } from "../protocol/failures.ts";

/** How long to wait in ms before a failed subscription is tried again. */
const RETRY_MS = 500;
/** The same if Redis has refused it for good, at most: the pause grows. */
const MAX_MUTE_MS = 60_000;

export interface InboxListener {
  onInboxMessage(message: InboxMessage): void;
  /** The inbox has opened or turned mute, or messages may have been lost: each lock's waiters must ask again. */
  onInboxChange(): void;
}

/** The inbox of one `RedisLock`. Mute if the client cannot subscribe, or may not: then waiters poll. */
export class Inbox {
  /** The id of its channel. Owner ids that the library makes have it as their nonce. */
  readonly nonce: string = makeNonce();
  /** Only the inbox writes this and the next one. */
  listens = false;
  isMute = false;
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #warnings: Warnings;
  readonly #listener: InboxListener;
  readonly #closed = new AbortController();
  #opening: Promise<void> | null = null;
  #subscription: AsyncDisposable | null = null;
  /** When a mute inbox tries again, in monotonic ms, and its pause after that. */
  #nextTryMs = 0;
  #muteMs = RETRY_MS;

  constructor(client: RedisClient, clock: Clock, warnings: Warnings, listener: InboxListener) {
    this.#client = client;
    this.#clock = clock;
    this.#warnings = warnings;
    this.#listener = listener;
    if (client.subscribe === undefined) this.#becomeMute(Infinity);
  }

  /** Its id for the scripts. A mute inbox has an id that begins with `-`: they publish nothing to it. */
  get id(): string {
    return this.isMute ? `-${this.nonce}` : this.nonce;
  }

  /**
   * Whether the server of a lock can count the inbox's subscriber by `PUBSUB NUMSUB`. In a cluster
   * messages come from all nodes, but each node counts only its own subscribers.
   */
  get isCountable(): boolean {
    return this.listens && !this.#client.cluster;
  }

  /**
   * Opens the inbox in the background, unless it is open. Retries until Redis refuses for good: then it is
   * mute, and a later call tries again.
   */
  open(): void {
    if (this.#opening === null && this.#clock.now() >= this.#nextTryMs) {
      this.#opening = outside(this.#open.bind(this)); // it belongs to no call
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#opening;
    await this.#subscription?.[Symbol.asyncDispose]();
    this.#subscription = null;
    this.listens = false;
  }

  async #open(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      try {
        this.#subscription = await this.#client.subscribe!(
          `${INBOX_CHANNEL_PREFIX}${this.nonce}`,
          (text) => this.#receive(text),
          () => this.#listener.onInboxChange(),
        );
        this.listens = true;
        this.isMute = false;
        this.#listener.onInboxChange();
        return;
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal?.passing === false) return this.#onRefusal(refusal.code, error);
        await pause(this.#clock, RETRY_MS, this.#closed.signal);
      }
    }
  }

  #becomeMute(untilMs: number): void {
    this.isMute = true;
    this.#nextTryMs = untilMs;
  }

  #onRefusal(code: string, error: unknown): void {
    this.#becomeMute(this.#clock.now() + this.#muteMs);
    this.#muteMs = Math.min(2 * this.#muteMs, MAX_MUTE_MS);
    this.#opening = null;
    const advice = code === "NOPERM" ? ". Check the user's ACL" : "";
    this.#warnings.warn(
      `Redis refuses to subscribe to "${INBOX_CHANNEL_PREFIX}*", so waiters poll${advice}: ` +
        (error instanceof Error ? error.message : String(error)),
    );
    this.#listener.onInboxChange();
  }

  #receive(text: string): void {
    const message = decodeMessage(text);
    if (message !== null) this.#listener.onInboxMessage(message);
  }
}
