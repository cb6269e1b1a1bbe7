/**
 * Where grants are told: one channel per instance, opened on first contention.
 *
 * @module
 */
import { type Clock, pause } from "../../core/clock.ts";
import type { RedisClient } from "../client.ts";
import { INBOX_CHANNEL_PREFIX } from "../protocol/keys.ts";
import { decodeMessage, type InboxMessage } from "../protocol/messages.ts";
import { refusalOf } from "../protocol/replies.ts";

/** How long to wait in ms before a subscription is tried again. */
const RETRY_MS = 500;

/** What the inbox tells. */
export interface InboxEvents {
  onMessage(message: InboxMessage): void;
  /** Messages may have been lost, or the inbox has changed: everybody must ask again. */
  onChange(): void;
  onWarning(message: string): void;
}

/** The inbox of one instance. */
export class Inbox {
  readonly #client: RedisClient;
  readonly #clock: Clock;
  readonly #events: InboxEvents;
  readonly #uuid = crypto.randomUUID();
  readonly #closed = new AbortController();
  #opening: Promise<void> | null = null;
  #subscription: AsyncDisposable | null = null;
  #isMute: boolean;

  constructor(client: RedisClient, clock: Clock, events: InboxEvents) {
    this.#client = client;
    this.#clock = clock;
    this.#events = events;
    this.#isMute = client.subscribe === undefined;
  }

  /** Its name for the scripts; one that begins with `-` gets no messages. */
  get id(): string {
    return this.#isMute ? `-${this.#uuid}` : this.#uuid;
  }

  /** Whether messages come in. */
  get listens(): boolean {
    return this.#subscription !== null;
  }

  /**
   * Whether the server of a lock can count who listens. In a cluster each node knows only those who
   * subscribed there, while messages come from all nodes.
   */
  get isCountable(): boolean {
    return this.listens && !this.#client.cluster;
  }

  /** Opens the inbox if it is not open, in the background. */
  open(): void {
    if (!this.#isMute) this.#opening ??= this.#open();
  }

  /** Closes the connection of the subscription. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#opening;
    await this.#subscription?.[Symbol.asyncDispose]();
    this.#subscription = null;
  }

  async #open(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      try {
        this.#subscription = await this.#client.subscribe!(
          `${INBOX_CHANNEL_PREFIX}${this.#uuid}`,
          (text) => this.#receive(text),
          () => this.#events.onChange(),
        );
        this.#events.onChange();
        return;
      } catch (error) {
        if (refusalOf(error)?.passing === false) return this.#mute(error);
        await pause(this.#clock, RETRY_MS, this.#closed.signal);
      }
    }
  }

  #mute(error: unknown): void {
    this.#isMute = true;
    this.#events.onWarning(
      `Redis refuses the subscription to "${INBOX_CHANNEL_PREFIX}*", so waiters poll: ` +
        (error instanceof Error ? error.message : String(error)),
    );
    this.#events.onChange();
  }

  #receive(text: string): void {
    const message = decodeMessage(text);
    if (message !== null) this.#events.onMessage(message);
  }
}
