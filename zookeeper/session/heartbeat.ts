/**
 * The heartbeat: the write that proves a session when no other write does. When it is sent is decided by
 * its callers.
 *
 * @module
 */
import { type Clock, type Instant, instant, wasSuspended } from "../../core/time/clock.ts";
import { hasCode } from "../connection/failures.ts";
import { isProof, type SessionRequests } from "./session_requests.ts";

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
  #preparing: Promise<void> | null = null;
  #isPrepared = false;

  /** Sends nothing yet. */
  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /**
   * Creates the znode, unless that was done before. So a missing right is known before the first lease
   * depends on the heartbeat.
   *
   * @returns The answer that is awaited; `null` if the znode was created before.
   * @throws {ZooKeeperError} If the request fails.
   */
  prepare(): Promise<void> | null {
    if (this.#isPrepared) return null;
    return this.#preparing ??= this.#create().finally(() => this.#preparing = null);
  }

  /**
   * Sends a heartbeat, unless one is under way, and waits for its answer. A refusal proves the session, too.
   * It is no failure: if the rights change later, the leases last as long as the session does.
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

  async #create(): Promise<void> {
    const { requests, path } = this.#options;
    try {
      await requests.createEphemeral(path);
    } catch (error) {
      // An earlier create was executed, but its answer was lost.
      if (!hasCode(error, "NODE_EXISTS")) throw error;
    }
    this.#isPrepared = true;
  }

  /** Writes to the znode, or creates it again if another client has deleted it. */
  async #write(): Promise<void> {
    const { requests, path } = this.#options;
    try {
      await requests.set(path);
    } catch (error) {
      if (!isProof(error)) throw error;
      // That has proven the session, whatever becomes of the create.
      if (hasCode(error, "NO_NODE")) await requests.createEphemeral(path).catch(() => {});
    }
  }
}
