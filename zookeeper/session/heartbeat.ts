/**
 * The heartbeat: the write that proves a session, when no other write does.
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

/** Writes to a znode of the session's own. All callers share the heartbeat that is under way. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #pending: { readonly sent: Instant; readonly answered: Promise<void> } | null = null;

  /** Sends nothing yet. */
  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Sends a heartbeat, unless one is under way; resolves when it is answered. */
  send(): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    // A heartbeat from before the process was suspended proves nothing about the time since then.
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

  /** The first heartbeat creates the znode, so a session that never holds a lock for long has none. */
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
