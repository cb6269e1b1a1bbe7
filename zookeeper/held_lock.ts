/**
 * A lock that we hold: how its lease is renewed, released and lost.
 *
 * @module
 */
import type { Clock } from "../core/clock.ts";
import type { LeaseLostReason } from "../core/errors.ts";
import type { LeaseActions, ReleaseAnswer, RenewAnswer } from "../core/grant.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { OwnZnodeListener } from "./recipe/own_watch.ts";
import type { OwnZnode } from "./recipe/own_znode.ts";
import type { SessionListener } from "./session/session.ts";
import type { ZnodeCleanup } from "./znode_cleanup.ts";

/**
 * The actions of one lease. While the lock is held for long, our znode is watched: if another client
 * deletes it, the lease is lost as `"stolen"`.
 */
export class HeldLock implements LeaseActions, OwnZnodeListener, SessionListener {
  readonly #clock: Clock;
  readonly #znode: OwnZnode;
  readonly #cleanup: ZnodeCleanup;
  /** The lease to end if our znode is deleted; `null` before and after it is guarded. */
  #guarded: Pick<ManagedLease, "lose"> | null = null;
  #cancelFirstWatch: (() => void) | null = null;

  /** Takes a znode that is the first one in its queue. */
  constructor(clock: Clock, znode: OwnZnode, cleanup: ZnodeCleanup) {
    this.#clock = clock;
    this.#znode = znode;
    this.#cleanup = cleanup;
  }

  /** Ends the lease if another client deletes our znode, until the lock is released. */
  guard(lease: Pick<ManagedLease, "lose">): void {
    const { session, watch } = this.#znode;
    this.#guarded = lease;
    watch.listen(this);
    session.addListener(this);
    if (watch.state === "set") return;
    // Most locks are released sooner, and so never cost this request.
    const delayMs = session.timeoutMs / 10;
    this.#cancelFirstWatch = this.#clock.schedule(() => this.#keepWatch(), delayMs);
  }

  async renew(): Promise<RenewAnswer> {
    const { session } = this.#znode;
    const askedMs = this.#clock.now();
    void this.#keepWatch();
    try {
      await session.sendHeartbeat();
      // The last answered write may have been sent before this call.
      return { state: "held", validMs: session.validity.provenUntilMs - askedMs };
    } catch (cause) {
      return { state: "unknown", cause };
    }
  }

  release(): Promise<ReleaseAnswer> {
    this.#cancelFirstWatch?.();
    this.#znode.session.removeListener(this);
    this.#guarded = null;
    return this.#cleanup.delete(this.#znode);
  }

  lapsed(): LeaseLostReason {
    this.#znode.session.giveUp();
    return "session-expired";
  }

  onOwnZnodeChange(): void {
    if (this.#znode.watch.state === "deleted") this.#guarded?.lose("stolen");
    else void this.#keepWatch();
  }

  /** A watch is lost with its connection. */
  onSessionChange(): void {
    void this.#keepWatch();
  }

  /** Sets the watch on our znode again, unless it is set. Never rejects. */
  async #keepWatch(): Promise<void> {
    const { watch } = this.#znode;
    if (this.#guarded === null || watch.state === "set") return;
    await watch.set().catch(() => {}); // The next heartbeat tries again.
    if (watch.state === "deleted") this.#guarded?.lose("stolen");
  }
}
