/**
 * Waits that `waitMs` bounds, on top of a strategy's unbounded wait: what ends them, and what the caller
 * gets then. An `AbortSignal` of the caller ends a wait without this.
 *
 * @module
 */
import { abortable } from "./abort.ts";
import { type Clock, settledWithin, TIMED_OUT, within } from "./clock.ts";
import type { AcquireOptions, Lease, LockSnapshot, WaitInfo } from "./distributed_lock.ts";
import { LockTimeoutError, LockUnavailableError } from "./errors.ts";

/** How long, in ms, the service may take to answer at the end of a wait. */
export const ANSWER_WITHIN_MS = 500;

/** The calls of a strategy that a bounded wait is made of. */
export interface WaitSource<Options extends AcquireOptions> {
  /** Checks the arguments. Throws as `acquire()` rejects. */
  check(name: string, options: Options): void;
  /** Waits for the lock without a limit of time. Calls `onWait` when the service has queued the call. */
  wait(name: string, options: Options): Promise<Lease>;
  /** Tries once. */
  tryOnce(name: string, options: Options): Promise<Lease | null>;
  /**
   * Reads the holder, and no waiters.
   *
   * @throws {LockUnavailableError} If there is no answer within {@linkcode ANSWER_WITHIN_MS}.
   */
  look(name: string): Promise<LockSnapshot>;
}

/** The bounded waits of one strategy instance. */
export class BoundedWaits<Options extends AcquireOptions> {
  readonly #source: WaitSource<Options>;
  readonly #clock: Clock;
  /** The looks under way. Waits for one lock that end together share one. */
  readonly #looks = new Map<string, Promise<LockSnapshot>>();

  constructor(source: WaitSource<Options>, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  /**
   * Waits for `waitMs`, which must be set.
   *
   * @throws {LockTimeoutError} If the time is over.
   * @throws {LockUnavailableError} If the service does not answer at the end.
   */
  async acquire(name: string, options: Options): Promise<Lease> {
    const startMs = this.#clock.now();
    const lease = await this.#waitOrTry(name, options);
    if (lease !== null) return lease;
    const waitedMs = Math.round(this.#clock.now() - startMs);
    const { holders: [holder] } = await this.#look(name, options.signal);
    throw new LockTimeoutError(name, waitedMs, holder?.label);
  }

  /**
   * Waits for `waitMs`, which must be set. Resolves with `null` if the time is over.
   *
   * @throws {LockUnavailableError} If the service does not answer at the end.
   */
  async tryAcquire(name: string, options: Options): Promise<Lease | null> {
    const lease = await this.#waitOrTry(name, options);
    // The answer to a single try has just shown that the service is alive.
    if (lease === null && options.waitMs !== 0) await this.#look(name, options.signal);
    return lease;
  }

  async #waitOrTry(name: string, options: Options): Promise<Lease | null> {
    this.#source.check(name, options);
    const { waitMs = 0 } = options;
    const unbounded = { ...options, waitMs: undefined };
    if (waitMs === 0) return await this.#source.tryOnce(name, unbounded);
    return await this.#wait(name, unbounded, waitMs);
  }

  async #wait(name: string, options: Options, waitMs: number): Promise<Lease | null> {
    const end = new AbortController();
    const queued = Promise.withResolvers<void>();
    let isQueued = false;
    const onWait = (info: WaitInfo) => {
      isQueued = true;
      queued.resolve();
      options.onWait?.(info);
    };
    const signal = options.signal === undefined
      ? end.signal
      : AbortSignal.any([options.signal, end.signal]);
    const acquiring = this.#source.wait(name, { ...options, signal, onWait });
    const lease = await within(this.#clock, acquiring, waitMs);
    if (lease !== TIMED_OUT) return lease;
    // Without a first answer nobody knows whether the lock is free.
    if (!isQueued) {
      const answered = Promise.race([acquiring, queued.promise]);
      await settledWithin(this.#clock, answered, ANSWER_WITHIN_MS);
    }
    const reason = new DOMException("The wait is over", "TimeoutError");
    end.abort(reason);
    // A grant at the very end still counts. If the call ends without one, it leaves the queue.
    const late = await acquiring.catch((error) => {
      if (error !== reason) throw error;
      return null;
    });
    if (late === null && !isQueued) return await this.#throwUnavailable(name, options.signal);
    return late;
  }

  /** The look explains the outage; if it gets an answer, the call itself still had none. */
  async #throwUnavailable(name: string, signal: AbortSignal | undefined): Promise<never> {
    await this.#look(name, signal);
    throw new LockUnavailableError(
      `Cannot acquire lock ${JSON.stringify(name)}: the service has not answered in time`,
      name,
    );
  }

  /** Reads the holder, unless the caller's signal aborts first. */
  #look(name: string, signal: AbortSignal | undefined): Promise<LockSnapshot> {
    let look = this.#looks.get(name);
    if (look === undefined) {
      look = this.#source.look(name).finally(() => this.#looks.delete(name));
      this.#looks.set(name, look);
    }
    return signal === undefined ? look : abortable(look, signal);
  }
}
