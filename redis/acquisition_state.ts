/**
 * The state of an acquisition, and its transitions. Sends nothing and knows no server.
 *
 * @module
 */
import type { Instant } from "../core/time/clock.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import type { GrantMessage } from "./protocol/messages.ts";

/**
 * The phases of an acquisition:
 * - `asking`: an ask is unanswered, waits for its turn, or is about to be sent. Its answer is `"valid"`; or `"outdated"`: it
 *   counts, but another ask must follow; or `"void"`: a grant in it has been stolen since;
 * - `queued`: the server has queued the call, which waits for a message;
 * - `granted`: a message says that the call holds the lock, for a claim;
 * - `acquired`: the call has a lease;
 * - `denied`: another call holds the lock, and this one does not wait for it.
 */
export type AcquisitionPhase =
  | { readonly kind: "asking"; readonly answer: "valid" | "outdated" | "void" }
  | { readonly kind: "queued" }
  | { readonly kind: "granted"; readonly message: GrantMessage; readonly received: Instant }
  | { readonly kind: "acquired"; readonly lease: ManagedLease }
  | { readonly kind: "denied" };

const ASKING: AcquisitionPhase = { kind: "asking", answer: "valid" };
const ASKING_OUTDATED: AcquisitionPhase = { kind: "asking", answer: "outdated" };
const ASKING_VOID: AcquisitionPhase = { kind: "asking", answer: "void" };
const QUEUED: AcquisitionPhase = { kind: "queued" };
const DENIED: AcquisitionPhase = { kind: "denied" };

/**
 * The state of one acquisition. These are all transitions; in any other phase an event does nothing:
 *
 * | event        | from                    | to                                 |
 * | ------------ | ----------------------- | ---------------------------------- |
 * | `sendAsk`    | asking                  | asking (valid)                     |
 * | `enqueue`    | asking (valid)          | queued                             |
 * | `requireAsk` | asking (valid), queued  | asking (outdated)                  |
 * | `grant`      | asking, queued, granted | granted: the latest message counts |
 * | `takeGrant`  | granted                 | asking (valid)                     |
 * | `voidGrant`  | asking, queued, granted | asking (void)                      |
 * | `acquire`    | asking                  | acquired                           |
 * | `deny`       | asking                  | denied                             |
 * | `withdraw`   | asking, queued, granted | denied                             |
 *
 * So a grant message counts even if it arrives before the answer to an ask. A theft voids every
 * earlier grant.
 */
export class AcquisitionState {
  #phase: AcquisitionPhase = ASKING;
  /** Ends the current wait of the acquisition, which then acts on its phase. */
  #wake: ((value: void) => void) | null = null;

  get phase(): AcquisitionPhase {
    return this.#phase;
  }

  /** Whether the answer to the current ask counts: no grant message and no theft came since. */
  get takesAnswer(): boolean {
    return this.#phase.kind === "asking" && this.#phase.answer !== "void";
  }

  /** An ask is sent. Its answer covers everything that happened before. */
  sendAsk(): void {
    if (this.#phase.kind === "asking") this.#enter(ASKING);
  }

  /** The server has answered that the call is in its queue. */
  enqueue(): void {
    if (this.#phase === ASKING) this.#enter(QUEUED);
  }

  /** Messages may have been lost, or an ask is due: another ask must follow. */
  requireAsk(): void {
    if (this.#phase === ASKING || this.#phase === QUEUED) this.#enter(ASKING_OUTDATED);
  }

  /** A grant message has arrived. */
  grant(message: GrantMessage, received: Instant): void {
    if (!this.#isFinal) this.#enter({ kind: "granted", message, received });
  }

  /** The call looks at its grant. Unless a lease is opened for it, an ask follows. */
  takeGrant(): void {
    if (this.#phase.kind === "granted") this.#enter(ASKING);
  }

  /** The lock was stolen: every earlier grant is void. */
  voidGrant(): void {
    if (!this.#isFinal) this.#enter(ASKING_VOID);
  }

  /** A lease was opened for the grant. */
  acquire(lease: ManagedLease): void {
    if (this.#phase.kind === "asking") this.#enter({ kind: "acquired", lease });
  }

  /** Another owner holds the lock, and the caller does not wait. */
  deny(): void {
    if (this.#phase.kind === "asking") this.#enter(DENIED);
  }

  /** The call is no longer needed: another call of the same owner id has the lock. */
  withdraw(): void {
    if (!this.#isFinal) this.#enter(DENIED);
  }

  /** Ends the current wait without a transition. */
  wake(): void {
    this.#wake?.();
  }

  /** Waits until the kind of the phase changes. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#wake = resolve);
  }

  /** Waits for `answer`; resolves with `undefined` if the kind of the phase changes first. */
  changeOr<T>(answer: Promise<T>): Promise<T | void> {
    return new Promise((resolve, reject) => {
      this.#wake = resolve;
      answer.then(resolve, reject);
    });
  }

  get #isFinal(): boolean {
    return this.#phase.kind === "acquired" || this.#phase.kind === "denied";
  }

  #enter(phase: AcquisitionPhase): void {
    const isOther = phase.kind !== this.#phase.kind;
    this.#phase = phase;
    if (isOther) this.#wake?.();
  }
}
