/**
 * What is published on channels of `node:diagnostics_channel`, by `core/lease/tracing.ts`. See `docs/tracing.md`.
 *
 * @module
 */
import type { LockMode } from "./distributed_lock.ts";
import type { LeaseLostReason } from "./errors.ts";

/**
 * The names of the channels. `acquire` is that of a `tracingChannel()` around each call that asks for a lock
 * (also by `request()`, and by the web parts); the others are plain channels. A call publishes one
 * {@linkcode AcquireEvent} on `acquire`, `wait` and `blocked`, a lease one {@linkcode HoldEvent} on `grant`,
 * `renewalLate`, `lost` and `release`: each time the same object, with more members.
 *
 * - `wait`: the call has to wait. Once per call.
 * - `blocked`: the call has waited for 100 ms, and `query()` has read who holds the lock. Once per call, if
 *   somebody listened to this channel when it began to wait.
 * - `grant`: a lease begins. It ends with one `lost` or one `release`, never with both.
 * - `renewalLate`: a lease that is renewed has less than a third of its time left.
 * - `lost`: the lease is lost, or its release has found out that it was gone.
 * - `release`: the holder has released the lease; the service has answered, or the deadline is over.
 *
 * Nothing is allocated for a channel to which nobody listens.
 *
 * @example Usage
 * ```ts
 * import { subscribe, unsubscribe } from "node:diagnostics_channel";
 * import { CHANNELS, type HoldEvent, MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * const granted: string[] = [];
 * const listener = (event: unknown) => void granted.push((event as HoldEvent).name);
 * subscribe(CHANNELS.grant, listener);
 * await using locks = new MemoryLock();
 * await locks.request("orders:42", () => {});
 * assertEquals(granted, ["orders:42"]);
 * unsubscribe(CHANNELS.grant, listener);
 * ```
 */
export const CHANNELS = {
  acquire: "holdfast:acquire",
  wait: "holdfast:wait",
  blocked: "holdfast:blocked",
  grant: "holdfast:grant",
  renewalLate: "holdfast:renewal-late",
  lost: "holdfast:lost",
  release: "holdfast:release",
} as const;

/**
 * A subscriber of `start` may set this member of an {@linkcode AcquireEvent}: a function that runs the call, such
 * as one that makes a context of OpenTelemetry active. `bindStore()` would need that context's own
 * `AsyncLocalStorage`, which an SDK keeps to itself. A registered symbol, for other copies of this package.
 */
export const RUN_CALL: unique symbol = Symbol.for("@holdfast/lock/run-call") as never;

export interface Runnable {
  [RUN_CALL]?: <T>(call: () => T) => T;
}

/** A call that asks for a lock. Holds no owner id. */
export interface AcquireEvent {
  /** `"memory"`, `"file"`, `"redis"`, `"zookeeper"`, or `"fake"` for the lock of tests. */
  readonly strategy: string;
  /** The method; `"steal"` for `request()` with `steal`. */
  readonly method: "acquire" | "tryAcquire" | "attach" | "steal";
  /** The name of the lock. */
  readonly name: string;
  /** How the call asks for the lock. */
  readonly mode: LockMode;
  /** The label of the call, or of its strategy instance. */
  readonly label?: string;
  /** How long, in ms, the call has taken until this event. */
  readonly waitedMs: number;
  /** The position in the queue when the call began to wait, as far as the strategy knows it. */
  readonly position?: number;
  /** The number of waiters at that time, this one included, as far as the strategy knows it. */
  readonly waiters?: number;
  /** From `blocked` on: the label of a holder, if it has one. */
  readonly holderLabel?: string;
  /** From `blocked` on: how many held the lock. */
  readonly holderCount?: number;
  /** At the end of a call that has not failed: whether it got the lock. */
  readonly result?: "granted" | "busy";
  /** At the end of a call that has failed: what it rejects with. */
  readonly error?: unknown;
}

/** A lease. Holds no owner id. */
export interface HoldEvent {
  /** As in {@linkcode AcquireEvent}. */
  readonly strategy: string;
  /** The name of the lock. */
  readonly name: string;
  /** Whether the lock is held alone, or shared. */
  readonly mode: LockMode;
  /** The label of the call that was granted the lock, or of its strategy instance. */
  readonly label?: string;
  /** The fencing token of the lease. */
  readonly fencingToken: bigint;
  /** The call that was granted the lock, if somebody listened to it; at the grant, its `waitedMs` is that until then. */
  readonly call?: AcquireEvent;
  /** How long, in ms, the lease has been held until this event. Left out if nobody listened to its grant. */
  readonly heldMs?: number;
  /** On `renewalLate`: how long, in ms, the lease can still be proven. */
  readonly remainingMs?: number;
  /** On `lost`: why. */
  readonly reason?: LeaseLostReason;
  /** On `lost`: the `LeaseLostError`. On `release`: the `LockSetupError`, if the service refuses. */
  readonly error?: unknown;
}
