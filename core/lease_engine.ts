/**
 * The leases of one strategy instance, on one timer.
 *
 * @module
 */
import { Background } from "./background.ts";
import { type Clock, settledWithin, SYSTEM_CLOCK } from "./clock.ts";
import { type Grant, grantDeadlineMs, type LeaseActions } from "./grant.ts";
import { type LeaseHost, ManagedLease } from "./lease.ts";

/** Owns deadlines, timers and clean-ups; knows no server. */
export class LeaseEngine {
  readonly clock: Clock;
  readonly #background = new Background();
  readonly #leases = new Set<ManagedLease>();
  readonly #stop = new AbortController();
  readonly #host: LeaseHost;
  #cancelTimer: (() => void) | null = null;
  #timerMs = Infinity;

  constructor(clock: Clock = SYSTEM_CLOCK) {
    this.clock = clock;
    this.#host = {
      clock,
      stopped: this.#stop.signal,
      due: (dueMs) => this.#arm(dueMs),
      ended: (lease) => this.#forget(lease),
      background: (task) => this.#background.run(task),
      enter: () => this.#background.enter(),
      exit: () => this.#background.exit(),
    };
  }

  /** The leases held now. */
  get leases(): Iterable<ManagedLease> {
    return this.#leases;
  }

  /** Aborts when the engine is closed: background work ends then. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  /** Runs a clean-up that {@linkcode LeaseEngine.close} waits for. */
  background(task: () => Promise<unknown>): void {
    this.#background.run(task);
  }

  /** A call begins that {@linkcode LeaseEngine.close} waits for; `exit()` must follow. */
  enter(): void {
    this.#background.enter();
  }

  /** The call has ended. */
  exit(): void {
    this.#background.exit();
  }

  /**
   * Makes a lease of a grant, or returns `null` if the grant is known too late: a reply that arrives
   * after its own deadline is not a lease.
   */
  open(grant: Grant, actions: LeaseActions): ManagedLease | null {
    if (grantDeadlineMs(grant) <= this.clock.now()) return null;
    const lease = new ManagedLease(this.#host, actions, grant);
    this.#leases.add(lease);
    this.#arm(lease.dueMs);
    return lease;
  }

  /** Releases all leases but those that outlive it, waits for clean-ups, both within `timeoutMs`; then stops all work. */
  async close(timeoutMs: number): Promise<void> {
    const released = Promise.all(Array.from(this.#leases, (lease) => lease.close()));
    const done = released.then(() => this.#background.idle());
    await settledWithin(this.clock, done, timeoutMs);
    this.#stop.abort();
  }

  #forget(lease: ManagedLease): void {
    this.#leases.delete(lease);
    if (this.#leases.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#timerMs = Infinity;
  }

  #arm(dueMs: number): void {
    if (dueMs >= this.#timerMs || this.#leases.size === 0) return;
    this.#cancelTimer?.();
    this.#timerMs = dueMs;
    this.#cancelTimer = this.clock.schedule(() => this.#fire(), dueMs - this.clock.now());
  }

  #fire(): void {
    this.#timerMs = Infinity;
    this.#cancelTimer = null;
    const nowMs = this.clock.now();
    let nextMs = Infinity;
    for (const lease of [...this.#leases]) nextMs = Math.min(nextMs, lease.tick(nowMs));
    this.#arm(nextMs);
  }
}
