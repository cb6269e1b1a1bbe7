/**
 * What the strategies share of their calls: the trace, the warning of a call that waits for its own caller, and
 * the bound of the wait. Their arguments have been checked. Plain calls, which need none of that, do not come here.
 *
 * @module
 */
import type {
  AttachableAcquireOptions,
  DistributedLock,
  Lease,
} from "../contract/distributed_lock.ts";
import { holds, type Nesting } from "../contract/nesting.ts";
import { BoundedWaits, type WaitSource } from "../time/bounded_wait.ts";
import { type Clock, SYSTEM_CLOCK } from "../time/clock.ts";
import type { Lifetime } from "./lifetime.ts";
import { areCallsTraced, CallTraces, type Traced } from "./tracing.ts";

/** Whether an `acquire()` needs nothing of what is here, as is usual. */
export function isPlain({ waitMs }: AttachableAcquireOptions): boolean {
  return waitMs === undefined && holds.getStore() === undefined && !areCallsTraced();
}

/** The same for a `tryAcquire()` of a strategy that cannot be left without an answer: one without a wait ends by itself. */
export function isPlainTry({ waitMs = 0 }: AttachableAcquireOptions): boolean {
  return waitMs === 0 && !areCallsTraced();
}

/** The calls of a strategy, without what all strategies share. */
export interface CallSource<Options> extends WaitSource<Options & Traced> {
  attach?(name: string, options: Options & Traced): Promise<Lease | null>;
  steal?(name: string, options: Options & Traced): Promise<Lease>;
}

/** The calls of one strategy instance. */
export class Calls<Options extends AttachableAcquireOptions> {
  readonly #source: CallSource<Options>;
  readonly #nesting: Nesting;
  readonly #lifetime: Lifetime;
  readonly #bounded: BoundedWaits<Options & Traced>;
  readonly #traces: CallTraces;

  constructor(
    { strategy, lock, nesting, lifetime, clock = SYSTEM_CLOCK }: {
      /** The name of the strategy, as the channels show it. */
      readonly strategy: string;
      readonly lock: DistributedLock;
      readonly nesting: Nesting;
      readonly lifetime: Lifetime;
      readonly clock?: Clock;
    },
    source: CallSource<Options>,
  ) {
    this.#source = source;
    this.#nesting = nesting;
    this.#lifetime = lifetime;
    this.#bounded = new BoundedWaits(source, clock);
    this.#traces = new CallTraces(strategy, lock, lifetime.label);
  }

  acquire(name: string, options: Options & Traced): Promise<Lease> {
    if (options.call === undefined && areCallsTraced()) {
      return this.#trace("acquire", name, options);
    }
    const own = this.#nesting.ownHolds(name, options);
    const calling = options.waitMs === undefined
      ? this.#source.wait(name, options)
      : this.#bounded.acquire(name, options);
    if (own !== null) this.#nesting.watch(own, options, this.#lifetime.warnings, calling);
    return calling;
  }

  tryAcquire(name: string, options: Options & Traced): Promise<Lease | null> {
    if (options.call === undefined && areCallsTraced()) {
      return this.#trace("tryAcquire", name, options);
    }
    return options.waitMs === undefined
      ? this.#source.tryOnce(name, options, Infinity)
      : this.#bounded.tryAcquire(name, options);
  }

  /** Only for a strategy that can attach. */
  attach(name: string, options: Options & Traced): Promise<Lease | null> {
    if (options.call === undefined && areCallsTraced()) return this.#trace("attach", name, options);
    return this.#source.attach!(name, options);
  }

  /** Only for a strategy that can steal. */
  steal(name: string, options: Options & Traced): Promise<Lease> {
    if (options.call === undefined && areCallsTraced()) return this.#trace("steal", name, options);
    return this.#source.steal!(name, options);
  }

  /** In a method of its own: a function that has a closure costs memory even if it does not make it. */
  #trace<Method extends "acquire" | "tryAcquire" | "attach" | "steal">(
    method: Method,
    name: string,
    options: Options,
  ): ReturnType<this[Method]> {
    const call = (traced: Options & Traced): Promise<Lease | null> => this[method](name, traced);
    return this.#traces.run(method, name, options, call) as ReturnType<this[Method]>;
  }
}
