/**
 * How long a call bears with a ZooKeeper that does not answer.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import { type Clock, pause } from "../core/clock.ts";
import { LockUnavailableError } from "../core/errors.ts";
import { ZooKeeperError, type ZooKeeperErrorCode } from "./transport/transport.ts";

/** How long to wait in ms before a request is sent again that failed at once. */
export const RETRY_MS = 50;

/** What the same request cannot mend: who asks must begin anew. */
const ENDED: ReadonlySet<ZooKeeperErrorCode> = new Set(["SESSION_OVER", "OWN_ZNODE_GONE"]);

/** The patience of one call. It begins when a request fails, and ends with the next answer. */
export class Patience {
  readonly signal: AbortSignal;
  readonly #clock: Clock;
  readonly #name: string;
  readonly #unavailableAfterMs: number;
  /** When the first request went out that has failed since the last answer, in monotonic ms. */
  #failingSinceMs: number | null = null;

  /**
   * Creates a patience.
   *
   * @param clock The clock of the lease engine.
   * @param name The name of the lock, for errors.
   * @param unavailableAfterMs How long to bear, in ms.
   * @param signal Ends the call: its own signal, and disposal.
   */
  constructor(clock: Clock, name: string, unavailableAfterMs: number, signal: AbortSignal) {
    this.#clock = clock;
    this.#name = name;
    this.#unavailableAfterMs = unavailableAfterMs;
    this.signal = signal;
  }

  /**
   * Asks until there is an answer. Only for requests that may be executed twice.
   *
   * @param request Sends the request once.
   * @returns The answer.
   * @throws {ZooKeeperError} If the answer is a refusal, or the session or our znode is gone.
   * @throws {LockUnavailableError} If patience ends.
   * @throws {unknown} The signal's reason if it aborts.
   */
  async ask<T>(request: () => Promise<T>): Promise<T> {
    for (;;) {
      this.signal.throwIfAborted();
      const sentMs = this.#clock.now();
      try {
        const answer = await abortable(request(), this.signal);
        this.#failingSinceMs = null;
        return answer;
      } catch (error) {
        if (!(error instanceof ZooKeeperError)) throw error;
        if (error.isAnswer) this.#failingSinceMs = null;
        if (!error.isPassing || ENDED.has(error.code)) throw error;
        await this.bear(error, sentMs);
      }
    }
  }

  /**
   * Waits a moment after a failure that may pass.
   *
   * @param error What went wrong.
   * @param sentMs When the request went out, in monotonic ms.
   * @throws {unknown} The error if it is not ZooKeeper's, or the signal's reason if it aborts.
   * @throws {LockUnavailableError} If the failure will not pass, or patience ends.
   */
  async bear(error: unknown, sentMs: number = this.#clock.now()): Promise<void> {
    this.signal.throwIfAborted();
    if (!(error instanceof ZooKeeperError)) throw error;
    if (!error.isPassing) throw this.#unavailable("it refuses", error);
    this.#failingSinceMs ??= sentMs;
    if (this.#clock.now() - this.#failingSinceMs >= this.#unavailableAfterMs) {
      throw this.#unavailable("it does not answer in time", error);
    }
    await pause(this.#clock, RETRY_MS, this.signal);
  }

  #unavailable(why: string, cause: ZooKeeperError): LockUnavailableError {
    return new LockUnavailableError(
      `Cannot ask ZooKeeper for the lock ${JSON.stringify(this.#name)}: ${why} (${cause.code})`,
      this.#name,
      { cause },
    );
  }
}
