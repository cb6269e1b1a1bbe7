/**
 * The heartbeat: the write that proves a session when no other write does. When it is sent is decided by
 * its callers.
 *
 * @module
 */
import { type Clock, type Instant, instant, wasSuspended } from "../../core/clock.ts";
import { hasCode } from "../transport/errors.ts";
import type { SessionRequests } from "./session_requests.ts";

/** The options of a heartbeat. */
export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly requests: SessionRequests;
  /** The znode to write to. It belongs to this session alone and is below the root path. */
  readonly path: string;
  /** The session timeout in ms. */
  readonly timeoutMs: number;
}

/** Writes to a znode that only its session uses. Callers share a heartbeat that is not answered yet. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #pending: { readonly sent: Instant; readonly answered: Promise<void> } | null = null;

  /** Sends nothing yet. */
  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /**
   * Sends a heartbeat, unless one is under way, and waits for its answer.
   *
   * @throws {ZooKeeperError} If the request fails.
   */
  send(): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    // A heartbeat that was sent before the process was suspended does not prove the session after that.
    if (this.#pending !== null && !wasSuspended(clock, this.#pending.sent, timeoutMs)) {
      return this.#pending.answered;
    }
    const sent = instant(clock);
    const answered = this.#write().finally(() => {
      if (this.#pending === heartbeat) this.#pending = null;
    });
    const heartbeat = this.#pending = { sent, answered };
    return answered;
  }

  /** Creates the znode at the first heartbeat, so that sessions with only short holds have none. */
  async #write(): Promise<void> {
    const { requests, path } = this.#options;
    try {
      await requests.set(path);
    } catch (error) {
      if (!hasCode(error, "NO_NODE")) throw error;
      await requests.createEphemeral(path);
    }
  }
}
