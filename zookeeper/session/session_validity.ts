/**
 * Until when a session is trusted to be alive, computed from its answered writes. Sends nothing:
 * requests are in `session_requests.ts`.
 *
 * @module
 */
import { type Clock, type Instant, wasSuspended } from "../../core/time/clock.ts";
import type { LeaseEngine } from "../../core/lease/lease_engine.ts";

/** All leases of the instance: they are extended, and lost, together with the session. */
export type SessionLeases = Pick<LeaseEngine, "extendAll" | "loseAll">;

const NEVER: Instant = { nowMs: -Infinity, wallMs: -Infinity };

/** The options of the validity of a session. */
export interface SessionValidityOptions {
  readonly clock: Clock;
  readonly leases: SessionLeases;
  /** The session timeout in ms that the server granted. */
  readonly timeoutMs: number;
}

/**
 * The validity of one session. Only an answered *write* extends it: a server that is cut off from its
 * leader still answers reads and pings while the leader lets the session expire.
 *
 * From the moment the write was sent, the session is valid for ¾ of the timeout. The last quarter is a
 * margin, because the leader may count from an earlier moment: it learns from reports, which a follower
 * sends twice per tick, which sessions are active. A timeout is at least two ticks, so a quarter of it is
 * at least as long as the half tick between two reports. See `docs/zookeeper-protocol.md`.
 */
export class SessionValidity {
  readonly #options: SessionValidityOptions;
  #lastProvenAt: Instant = NEVER;
  /** When the write was sent that last extended the leases. */
  #leasesProvenAt: Instant = NEVER;
  #end: { readonly atMs: number; readonly isExpired: boolean } | null = null;

  /** Creates the validity of a session that no write has proven yet. */
  constructor(options: SessionValidityOptions) {
    this.#options = options;
  }

  /** How long in ms the session is valid from the moment an answered write was sent. */
  get validMs(): number {
    return this.#options.timeoutMs * 3 / 4;
  }

  /** When the last answered write was sent. */
  get lastProvenAt(): Instant {
    return this.#lastProvenAt;
  }

  /** The end of the validity, in monotonic ms. */
  get provenUntilMs(): number {
    return this.#lastProvenAt.nowMs + this.validMs;
  }

  /**
   * Whether the last answered write is recent enough to grant a lease: half of the validity is left.
   */
  get isRecent(): boolean {
    const { clock, timeoutMs } = this.#options;
    return this.#end === null && clock.now() - this.#lastProvenAt.nowMs < this.validMs / 2 &&
      !wasSuspended(clock, this.#lastProvenAt, timeoutMs);
  }

  /** Whether the session has ended for us. The server may still keep it for a while. */
  get isOver(): boolean {
    return this.#end !== null;
  }

  /** Whether the servers have surely dropped the session and its ephemeral znodes. */
  get isDroppedByServer(): boolean {
    if (this.#end === null) return false;
    const { clock, timeoutMs } = this.#options;
    return this.#end.isExpired || clock.now() - this.#end.atMs > 2 * timeoutMs;
  }

  /**
   * Extends the session and, if they were last extended a while ago, all leases. A session that is over is
   * not extended.
   *
   * @param sent When the answered write was sent.
   */
  extend(sent: Instant): void {
    if (this.#end !== null) return;
    if (sent.nowMs > this.#lastProvenAt.nowMs) this.#lastProvenAt = sent;
    if (this.#isWorthwhile(sent)) {
      this.#leasesProvenAt = sent;
      this.#options.leases.extendAll(sent, this.validMs);
    }
  }

  /**
   * Whether a write extends the leases by more than a twentieth of the timeout, or shows that they outlived
   * a suspension of the process. With many leases, it would take too long to extend them at every write.
   */
  #isWorthwhile({ nowMs, wallMs }: Instant): boolean {
    const stepMs = this.#options.timeoutMs / 20;
    const last = this.#leasesProvenAt;
    return nowMs - last.nowMs > stepMs || wallMs - last.wallMs > stepMs;
  }

  /**
   * Ends the session for good.
   *
   * @param isExpired Whether the server said that the session has expired.
   */
  end(isExpired: boolean): void {
    this.#end ??= { atMs: this.#options.clock.now(), isExpired };
  }
}
