/**
 * A connection of deno-redis: its members, and how it is closed so that it stays closed. When one is
 * opened or dropped is decided in `deno_redis.ts`.
 *
 * @module
 */
import { settledWithin, SYSTEM_CLOCK } from "../../../core/time/clock.ts";

/** How often in ms a connection is closed again whose client may open it again. */
const CLOSE_AGAIN_MS = 100;

/** The members of a deno-redis connection that the adapter uses. */
export interface DenoRedisConnection {
  /** Starts a pipeline: its commands leave together. */
  pipeline(): DenoRedisPipeline;
  /** Subscribes to a channel; the connection serves nothing else from then on. */
  subscribe(channel: string): Promise<DenoRedisSubscription>;
  /** Closes the connection; unanswered commands reject. */
  close(): void;
  /** Listens for events of the connection. Versions before 0.37 have none. */
  addEventListener?(
    event: DenoRedisEvent,
    listener: (event: { readonly detail?: unknown }) => void,
  ): void;
}

/** The events of a deno-redis connection. */
export type DenoRedisEvent = "connect" | "ready" | "reconnecting" | "error" | "close" | "end";

/** The members of a pipeline that the adapter uses. */
export interface DenoRedisPipeline {
  /** Adds a command. */
  sendCommand(command: string, args: string[]): Promise<unknown>;
  /** Sends the commands; resolves with their replies, errors among them. */
  flush(): Promise<unknown[]>;
}

/** The members of a subscription that the adapter uses. */
export interface DenoRedisSubscription {
  /** The messages. */
  receive(): AsyncIterableIterator<{ message: string }>;
}

/**
 * Closes a connection. A client that is reconnecting ignores this, and opens the connection again, so
 * it is closed again until `ended` settles, and once more then.
 *
 * @param ended Settles when the client has nothing left to do on the connection.
 */
export async function closeForGood(
  connection: DenoRedisConnection,
  ended: Promise<unknown>,
): Promise<void> {
  do connection.close(); while (!await settledWithin(SYSTEM_CLOCK, ended, CLOSE_AGAIN_MS));
  connection.close();
}

/** A connection for commands. It is opened at once, and used until it is dropped. */
export class CommandConnection {
  readonly #opened: Promise<DenoRedisConnection>;
  readonly #rejecters = new Set<(error: unknown) => void>();
  /** The last exchange. The client runs one at a time, so it ends after all others. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(opened: Promise<DenoRedisConnection>) {
    this.#opened = opened;
  }

  /** Sends commands together. Resolves with their replies, errors among them. */
  exchange(commands: readonly { command: string; args: string[] }[]): Promise<unknown[]> {
    const replies = this.#opened.then((connection) => {
      const pipeline = connection.pipeline();
      for (const { command, args } of commands) pipeline.sendCommand(command, args);
      return pipeline.flush();
    });
    return new Promise((resolve, reject) => {
      this.#rejecters.add(reject);
      this.#last = replies.then(resolve, reject).then(() => this.#rejecters.delete(reject));
    });
  }

  /**
   * Closes the connection and rejects its exchanges. The client may still execute their commands: it
   * sends them again if it is reconnecting. Resolves when the connection is closed for good.
   */
  drop(error: unknown): Promise<void> {
    for (const reject of this.#rejecters) reject(error);
    return this.#opened.then((connection) => closeForGood(connection, this.#last), () => {});
  }
}
