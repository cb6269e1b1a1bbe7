import { CallSignal } from "./abort_watch.ts";
import { abortable, type Clock, TIMED_OUT, within, withinSteps } from "./clock.ts";
import type {
  AcquireOptions,
  Lease,
  LockSnapshot,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { modeOf } from "../contract/call_options.ts";
import { LockTimeoutError, LockUnavailableError } from "../contract/errors.ts";
import type { CallOptions } from "../lease/tracing.ts";
import { RETRY_MS } from "./outage_budget.ts";

/** How long, in ms, the service may take to answer at the end of a wait. */
export const ANSWER_WITHIN_MS = 1_000;
/** A strategy keeps that limit itself, and says why: at the latest after the pause before a retry. */
const LIMIT_MS = ANSWER_WITHIN_MS + RETRY_MS;
/** That time passes in so many steps, so that a blocked event loop uses up one of them at most. */
const STEPS = 7;
/** On a busy machine the strategy's own limit may be late, and its error says more than ours. */
const PATIENT_STEPS = 2 * STEPS;

/** The calls of a strategy, without what all strategies share. They reject, and never throw. */
export interface CallSource {
  /** Waits for the lock without a limit of time. Calls `onWait` when the service has queued the call. */
  wait(name: string, options: CallOptions): Promise<Lease>;
  /** Tries once. An outage may last for `withinMs` at most. */
  tryOnce(name: string, options: CallOptions, withinMs: number): Promise<Lease | null>;
  /** Reads the holder, and no waiters, within {@linkcode ANSWER_WITHIN_MS}. */
  look(name: string): Promise<LockSnapshot>;
  attach?(name: string, options: CallOptions): Promise<Lease | null>;
  steal?(name: string, options: CallOptions): Promise<Lease>;
}

/** Waits that `waitMs` bounds, on top of a strategy's unbounded wait. The arguments have been checked. */
export class BoundedWaits {
  readonly #source: CallSource;
  readonly #clock: Clock;
  /** The looks under way. Waits for one lock that end together share one. */
  readonly #looks = new Map<string, Promise<LockSnapshot>>();

  constructor(source: CallSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  /**
   * Waits for `waitMs`, which must be set. Throws a `LockTimeoutError` if the time is over, and a
   * `LockUnavailableError` if the service does not answer at the end.
   */
  async acquire(name: string, options: AcquireOptions): Promise<Lease> {
    const startMs = this.#clock.now();
    const lease = await this.#waitOrTry(name, options);
    if (lease !== null) return lease;
    const waitedMs = Math.round(this.#clock.now() - startMs);
    const { holders: [holder] } = await this.#look(name, options.signal);
    throw new LockTimeoutError(name, waitedMs, holder?.label);
  }

  /** The same, but resolves with `null` if the time is over. */
  async tryAcquire(name: string, options: AcquireOptions): Promise<Lease | null> {
    const lease = await this.#waitOrTry(name, options);
    // The answer to a single try has just shown that the service is alive.
    if (lease === null && options.waitMs !== 0) await this.#look(name, options.signal);
    return lease;
  }

  async #waitOrTry(name: string, options: AcquireOptions): Promise<Lease | null> {
    const { waitMs = 0 } = options;
    const call = new CallSignal(options.signal);
    /** Resolves when the service has answered that somebody else holds the lock. */
    const held = Promise.withResolvers<void>();
    let isAnswered = false as boolean;
    const onWait = (info: WaitInfo) => {
      isAnswered = true;
      held.resolve();
      options.onWait?.(info);
    };
    const terms = { ...options, waitMs: undefined, signal: call.signal, onWait };
    const asked: Promise<Lease | null> = waitMs === 0
      ? this.#source.tryOnce(name, terms, ANSWER_WITHIN_MS)
      : this.#source.wait(name, terms);
    const calling = asked.finally(() => call.end());
    /** Ends the call. Resolves with `null`, or with a lease that was granted at the very end. */
    const leave = async () => {
      const reason = new DOMException("The time of the wait is over", "TimeoutError");
      call.abort(reason);
      try {
        return await calling;
      } catch (error) {
        if (error === reason) return null;
        throw error;
      }
    };
    const lease = waitMs === 0
      ? await this.#inTime(calling, PATIENT_STEPS)
      : await within(this.#clock, calling, waitMs);
    if (lease !== TIMED_OUT) return lease;
    if (isAnswered) return await leave();
    if (waitMs === 0) return await leave() ?? unanswered(name);
    // Without a first answer nobody knows whether the lock is free. The look explains an outage.
    const look = this.#look(name, options.signal);
    look.catch(() => {}); // of interest only if the call stays without an answer
    await this.#inTime(Promise.race([calling, held.promise]), STEPS).catch(() => {});
    const late = await leave();
    if (late !== null || isAnswered) return late;
    if (isHeldAgainst(await look, options)) return null;
    return unanswered(name, true);
  }

  #inTime<T>(answer: Promise<T>, steps: number): Promise<T | typeof TIMED_OUT> {
    return withinSteps(this.#clock, answer, LIMIT_MS / STEPS, steps);
  }

  /** Reads the holder, unless the caller's signal aborts first. */
  #look(name: string, signal: AbortSignal | undefined): Promise<LockSnapshot> {
    let look = this.#looks.get(name);
    if (look === undefined) {
      look = this.#inTime(this.#source.look(name), PATIENT_STEPS)
        .then((snapshot) => snapshot === TIMED_OUT ? unanswered(name) : snapshot)
        .finally(() => this.#looks.delete(name));
      this.#looks.set(name, look);
    }
    return signal === undefined ? look : abortable(look, signal);
  }
}

/** Whether the lock was not free for a call. Shared holders alone do not keep a shared call out. */
function isHeldAgainst(
  { holders, holderCount, waiterCount }: LockSnapshot,
  options: AcquireOptions,
): boolean {
  const mayJoin = modeOf(options) === "shared" && waiterCount === 0 &&
    holders.every(({ mode }) => mode === "shared") && holderCount < (options.limit ?? Infinity);
  return holderCount > 0 && !mayJoin;
}

/** Fails a call. If the service has answered others meanwhile, the fault is on this side. */
export function unanswered(name: string, answersOthers = false): never {
  const why = answersOthers
    ? "the service answers, but this process could not send the call in time. " +
      "It makes too many calls at once, or is too busy"
    : "the service has not answered in time, or this process has too much to do";
  throw new LockUnavailableError(`Cannot acquire lock ${JSON.stringify(name)}: ${why}`, name);
}
