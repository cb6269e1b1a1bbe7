/**
 * A lock that we hold: how its lease is renewed, released and lost. How it is acquired is in
 * `acquisitions.ts`.
 *
 * @module
 */
import type { Clock } from "../core/time/clock.ts";
import type { LeaseLostReason } from "../core/contract/errors.ts";
import type { LeaseActions, ReleaseAnswer, RenewAnswer } from "../core/lease/grant.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { OwnZnodeListener } from "./recipe/own_watch.ts";
import type { OwnZnode } from "./recipe/own_znode.ts";
import type { SessionListener } from "./session/session.ts";
import type { ZnodeCleanup } from "./znode_cleanup.ts";

/**
 * The actions of one lease. Unless the lock is released soon, our znode is watched: if another client
 * deletes it, the lease is lost with the reason `"stolen"`.
 */
export class HeldLock implements LeaseActions, OwnZnodeListener, SessionListener {
  readonly #clock: Clock;
  readonly #znode: OwnZnode;
  readonly #cleanup: ZnodeCleanup;
  /** The lease to end if our znode is deleted; `null` before `guard()` and after the release. */
  #guarded: Pick<ManagedLease, "lose"> | null = null;
  #cancelFirstWatch: (() => void) | null = null;
  /** The delete, until it has failed. */
  #releasing: Promise<ReleaseAnswer> | null = null;

  /** Takes a znode that is the first one in its queue. */
  constructor(clock: Clock, znode: OwnZnode, cleanup: ZnodeCleanup) {
    this.#clock = clock;
    this.#znode = znode;
    this.#cleanup = cleanup;
  }

  /**
   * From now until the release, ends the lease if another client deletes our znode. Sets the watch after
   * a tenth of the session timeout, unless it is already set.
   */
  guard(lease: Pick<ManagedLease, "lose">): void {
    const { session, watch } = this.#znode;
    this.#guarded = lease;
    watch.listen(this);
    session.addListener(this);
    if (watch.state === "set") return;
    // Most locks are released sooner than that, and so never need this request.
    const delayMs = session.timeoutMs / 10;
    this.#cancelFirstWatch = this.#clock.schedule(() => this.#keepWatch(), delayMs);
  }

  async renew(): Promise<RenewAnswer> {
    const { session } = this.#znode;
    const askedMs = this.#clock.now();
    void this.#keepWatch();
    try {
      await session.sendHeartbeat();
      // The session may be proven by a write that was sent before this call.
      return { state: "held", validMs: session.validity.provenUntilMs - askedMs };
    } catch (cause) {
      return { state: "unknown", cause };
    }
  }

  release(): Promise<ReleaseAnswer> {
    this.#cancelFirstWatch?.();
    this.#znode.session.removeListener(this);
    this.#guarded = null;
    // A second attempt waits for the delete of the first one: it may wait behind many others.
    return this.#releasing ??= this.#delete();
  }

  async #delete(): Promise<ReleaseAnswer> {
    const answer = await this.#cleanup.delete(this.#znode);
    // An answered delete is not sent again, even if the answer came after the first attempt was over.
    if (answer.state === "unknown" || answer.state === "refused") this.#releasing = null;
    return answer;
  }

  lapsed(cause: unknown): LeaseLostReason {
    this.#znode.session.giveUp(cause);
    return "session-expired";
  }

  onOwnZnodeChange(): void {
    if (this.#znode.watch.state === "deleted") this.#guarded?.lose("stolen");
    else void this.#keepWatch();
  }

  /** Sets the watch again: it was lost with its connection. */
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
