import { outside } from "../../core/lease/tracing.ts";
import { type Clock, pause } from "../../core/time/clock.ts";
import type { RedisClient } from "../client.ts";
import { INBOX_CHANNEL_PREFIX, makeNonce } from "../protocol/keys.ts";
import { decodeMessage, type InboxMessage } from "../protocol/messages.ts";
import { refusalOf } from "../protocol/failures.ts";

/** Pauses in ms before it subscribes again: the first one after a success, and the longest one without. */
const RETRY_MS = 100;
const MAX_RETRY_MS = 1_000;
/** The same if Redis has refused it for good: the pause grows. */
const MIN_MUTE_MS = 500;
const MAX_MUTE_MS = 60_000;
/** How long in ms a server may take to answer. One that is frozen would keep the inbox from another one. */
const ATTEMPT_MS = 10_000;

export interface InboxListener {
  onInboxMessage(message: InboxMessage): void;
  /** The inbox has opened or turned mute, or messages may have been lost: each lock's waiters must ask again. */
  onInboxChange(): void;
}

/**
 * The channel on which one `RedisLock` receives its messages, opened when a call first has to wait. It is mute if the
 * client cannot subscribe, or may not: then waiters poll.
 */
export class Inbox {
  /** The id of its channel. Owner ids that the library makes have it as their nonce. */
  readonly nonce: string = makeNonce();
  /** Only the inbox writes this and the next one. */
  listens = false;
  isMute = false;
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #warn: (message: string) => void;
  readonly #listener: InboxListener;
  readonly #closed = new AbortController();
  #running: Promise<void> | null = null;
  /** The longest pause before the next attempt. */
  #retryMs = RETRY_MS;
  /** When a mute inbox tries again, in monotonic ms, and its pause after that. */
  #nextTryMs = 0;
  #muteMs = MIN_MUTE_MS;

  constructor(
    client: RedisClient,
    clock: Clock,
    warn: (message: string) => void,
    listener: InboxListener,
  ) {
    this.#client = client;
    this.#clock = clock;
    this.#warn = warn;
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
   * Opens it in the background, unless it is open. Subscribes again and again until Redis refuses for good: then it
   * is mute, and a later call tries again.
   */
  open(): void {
    if (this.#running === null && this.#clock.now() >= this.#nextTryMs) {
      this.#running = outside(this.#run.bind(this)); // it belongs to no call
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      try {
        await this.#subscribe();
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal?.passing === false) return this.#onRefusal(refusal.code, error);
      }
      // Random, so that not all instances connect together.
      const pauseMs = RETRY_MS + Math.random() * (this.#retryMs - RETRY_MS);
      this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
      await pause(this.#clock, pauseMs, signal);
    }
  }

  /** Subscribes once, until the connection ends. */
  async #subscribe(): Promise<void> {
    const ended = new AbortController();
    const end = () => {
      cancel();
      ended.abort();
    };
    const cancel = this.#clock.schedule(end, ATTEMPT_MS);
    const onSubscribed = () => {
      cancel();
      this.#onSubscribed();
    };
    const { signal } = this.#closed;
    signal.addEventListener("abort", end);
    try {
      const channel = `${INBOX_CHANNEL_PREFIX}${this.nonce}`;
      const onMessage = this.#receive.bind(this);
      await this.#client.subscribe!(channel, onMessage, onSubscribed, ended.signal);
    } finally {
      this.listens = false; // its waiters ask more often until it does again
      cancel();
      signal.removeEventListener("abort", end);
    }
  }

  #onSubscribed(): void {
    this.listens = true;
    this.isMute = false;
    this.#muteMs = MIN_MUTE_MS;
    this.#retryMs = RETRY_MS;
    this.#listener.onInboxChange();
  }

  #becomeMute(untilMs: number): void {
    this.isMute = true;
    this.#nextTryMs = untilMs;
  }

  #onRefusal(code: string, error: unknown): void {
    this.#becomeMute(this.#clock.now() + this.#muteMs);
    this.#muteMs = Math.min(2 * this.#muteMs, MAX_MUTE_MS);
    this.#running = null;
    const advice = code === "NOPERM" ? ". Check the user's ACL" : "";
    this.#warn(
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
