/**
 * The state of an acquisition, and its transitions. Sends nothing and knows no server.
 *
 * @module
 */
import type { Instant } from "../core/clock.ts";
import type { ManagedLease } from "../core/lease.ts";
import type { GrantMessage } from "./protocol/replies.ts";

/**
 * Where an acquisition stands:
 * - `asking`: an ask is unanswered, or about to be sent. Its answer is `"valid"`, `"outdated"` (it
 *   counts, but another ask must follow), or `"void"` (a lock that it grants was stolen since);
 * - `queued`: the server has it in its queue, and it waits for a message;
 * - `granted`: a message says that it owns the lock, for a claim;
 * - `unavailable`: it was queued when another call found Redis unavailable;
 * - `acquired`: it has a lease;
 * - `denied`: another owner holds the lock, and the caller does not wait.
 */
export type AcquisitionPhase =
  | { readonly kind: "asking"; readonly answer: "valid" | "outdated" | "void" }
  | { readonly kind: "queued" }
  | { readonly kind: "granted"; readonly message: GrantMessage; readonly received: Instant }
  | { readonly kind: "unavailable"; readonly error: unknown }
  | { readonly kind: "acquired"; readonly lease: ManagedLease }
  | { readonly kind: "denied" };

const ASKING: AcquisitionPhase = { kind: "asking", answer: "valid" };
const ASKING_OUTDATED: AcquisitionPhase = { kind: "asking", answer: "outdated" };
const ASKING_VOID: AcquisitionPhase = { kind: "asking", answer: "void" };
const QUEUED: AcquisitionPhase = { kind: "queued" };
const DENIED: AcquisitionPhase = { kind: "denied" };

/**
 * The state of one acquisition. An event does nothing in a phase that is not in its row:
 *
 * | event         | from                                | to                                     |
 * | ------------- | ----------------------------------- | -------------------------------------- |
 * | `sendAsk`     | asking                              | asking (valid)                         |
 * | `enqueue`     | asking (valid / outdated)           | queued / asking                        |
 * | `requireAsk`  | queued, unavailable, asking (valid) | asking (outdated)                      |
 * | `grant`       | all but acquired and denied         | granted; the latest message counts     |
 * | `takeGrant`   | granted                             | asking, until `acquire` follows        |
 * | `voidGrant`   | all but acquired and denied         | asking (void)                          |
 * | `fail`        | queued                              | unavailable                            |
 * | `acquire`     | all but acquired and denied         | acquired                               |
 * | `deny`        | asking                              | denied                                 |
 *
 * So a grant message counts even if it overtakes the answer to an ask; a theft voids every grant
 * before it; and an answer voids the failure of another call, which ends only a wait in the queue.
 */
export class AcquisitionState {
  #phase: AcquisitionPhase = ASKING;
  /** Ends the current wait, so that the acquisition looks at its phase. */
  #wake: ((value: void) => void) | null = null;

  get phase(): AcquisitionPhase {
    return this.#phase;
  }

  get #isFinal(): boolean {
    return this.#phase.kind === "acquired" || this.#phase.kind === "denied";
  }

  /** The next ask is sent: what happened before is in its answer. */
  sendAsk(): void {
    this.#enter(ASKING);
  }

  /** The server has answered that the call is in its queue. */
  enqueue(): void {
    if (this.#phase.kind === "asking") this.#enter(this.#phase === ASKING ? QUEUED : ASKING);
  }

  /** Messages may be lost, or it is time: another ask must follow. */
  requireAsk(): void {
    const { kind } = this.#phase;
    if (kind === "queued" || kind === "unavailable" || this.#phase === ASKING) {
      this.#enter(ASKING_OUTDATED);
    }
  }

  /** A grant message has come. */
  grant(message: GrantMessage, received: Instant): void {
    if (!this.#isFinal) this.#enter({ kind: "granted", message, received });
  }

  /** The grant is examined now. Unless it becomes a lease, another ask follows. */
  takeGrant(): void {
    if (this.#phase.kind === "granted") this.#enter(ASKING);
  }

  /** The lock was stolen: whatever was granted before is another owner's now. */
  voidGrant(): void {
    if (!this.#isFinal) this.#enter(ASKING_VOID);
  }

  /** Another call has found that Redis is unavailable. */
  fail(error: unknown): void {
    if (this.#phase.kind === "queued") this.#enter({ kind: "unavailable", error });
  }

  /** The grant has become a lease. */
  acquire(lease: ManagedLease): void {
    if (!this.#isFinal) this.#enter({ kind: "acquired", lease });
  }

  /** Another owner holds the lock, and the caller does not wait. */
  deny(): void {
    if (this.#phase.kind === "asking") this.#enter(DENIED);
  }

  /** Ends the current wait without a transition: at disposal. */
  wake(): void {
    this.#wake?.();
  }

  /** Waits until the phase changes. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#wake = resolve);
  }

  /** Waits for `answer`, or resolves with `undefined` if the phase changes first. */
  changeOr<T>(answer: Promise<T>): Promise<T | void> {
    return new Promise((resolve, reject) => {
      this.#wake = resolve;
      answer.then(resolve, reject);
    });
  }

  #enter(phase: AcquisitionPhase): void {
    const isOther = phase.kind !== this.#phase.kind;
    this.#phase = phase;
    if (isOther) this.#wake?.();
  }
}
