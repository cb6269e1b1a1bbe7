/**
 * What the strategies share of their calls: the check of the arguments, the trace, the warning of a call that waits for
 * its own caller, and the bound of the wait. Plain calls need only the first of these.
 *
 * @module
 */
import { modeOf, readAcquireOptions } from "../contract/call_options.ts";
import { type AcquireEvent, RUN_CALL } from "../contract/channels.ts";
import type {
  AttachableAcquireOptions,
  DistributedLock,
  Lease,
  LockSnapshot,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { holds, type Nesting } from "../contract/nesting.ts";
import { checkName } from "../contract/options.ts";
import { BoundedWaits, type CallSource } from "../time/bounded_wait.ts";
import { type Clock, SYSTEM_CLOCK } from "../time/clock.ts";
import type { Lifetime } from "./lifetime.ts";
import { areCallsTraced, CALL_CHANNEL, type CallOptions, CallTrace, outside } from "./tracing.ts";

/** Whether an `acquire()` needs no trace, no warning and no bound of its wait, as is usual. */
export function isPlain({ waitMs }: AttachableAcquireOptions): boolean {
  return waitMs === undefined && holds.getStore() === undefined && !areCallsTraced();
}

/** The same for a `tryAcquire()` of a strategy where one without a wait always ends by itself. */
export function isPlainTry({ waitMs = 0 }: AttachableAcquireOptions): boolean {
  return waitMs === 0 && !areCallsTraced();
}

export class Calls {
  readonly #source: CallSource;
  readonly #nesting: Nesting;
  readonly #lifetime: Lifetime;
  readonly #bounded: BoundedWaits;
  readonly #strategy: string;
  readonly #lock: DistributedLock;
  /** The queries of traces under way. Calls that wait for one lock share one. */
  readonly #queries = new Map<string, Promise<LockSnapshot>>();

  constructor(
    { strategy, lock, nesting, lifetime, clock = SYSTEM_CLOCK }: {
      /** The name of the strategy, as the channels show it. */
      readonly strategy: string;
      readonly lock: DistributedLock;
      readonly nesting: Nesting;
      readonly lifetime: Lifetime;
      readonly clock?: Clock;
    },
    source: CallSource,
  ) {
    this.#source = source;
    this.#nesting = nesting;
    this.#lifetime = lifetime;
    this.#bounded = new BoundedWaits(source, clock);
    this.#strategy = strategy;
    this.#lock = lock;
  }

  /** Checks the arguments of a call, and that its instance is not disposed. */
  read(name: string, options: AttachableAcquireOptions): CallOptions {
    checkName(name);
    const read = readAcquireOptions(options, this.#lock.capabilities);
    this.#lifetime.throwIfEnded();
    return read;
  }

  acquire(name: string, options: CallOptions): Promise<Lease> {
    if (options.call === undefined && areCallsTraced()) {
      return this.#trace("acquire", name, options) as Promise<Lease>;
    }
    const own = this.#nesting.ownHolds(name, options);
    const calling = options.waitMs === undefined
      ? this.#source.wait(name, options)
      : this.#bounded.acquire(name, options);
    if (own !== null) this.#nesting.watch(own, options, this.#lifetime.warn, calling);
    return calling;
  }

  tryAcquire(name: string, options: CallOptions): Promise<Lease | null> {
    if (options.call === undefined && areCallsTraced()) {
      return this.#trace("tryAcquire", name, options);
    }
    return options.waitMs === undefined
      ? this.#source.tryOnce(name, options, Infinity)
      : this.#bounded.tryAcquire(name, options);
  }

  /** Only for a strategy that can attach. */
  attach(name: string, options: CallOptions): Promise<Lease | null> {
    if (options.call === undefined && areCallsTraced()) return this.#trace("attach", name, options);
    return this.#source.attach!(name, options);
  }

  /** Only for a strategy that can steal. */
  steal(name: string, options: CallOptions): Promise<Lease> {
    if (options.call === undefined && areCallsTraced()) {
      return this.#trace("steal", name, options) as Promise<Lease>;
    }
    return this.#source.steal!(name, options);
  }

  /**
   * Makes a call, and publishes its beginning, its wait and its end. In a method of its own: a function that has a
   * closure costs memory even if it does not make it.
   */
  async #trace(
    method: AcquireEvent["method"],
    name: string,
    options: AttachableAcquireOptions,
  ): Promise<Lease | null> {
    const { ownerId, waitMs, onWait } = options;
    const label = ownerId === undefined ? options.label ?? this.#lifetime.label : undefined;
    const trace = new CallTrace({
      strategy: this.#strategy,
      method,
      name,
      mode: modeOf(options),
      ...label ? { label } : {},
      waitedMs: 0,
    }, () => this.#query(name));
    const mayWait = method === "acquire" ? waitMs !== 0 : method === "tryAcquire" && !!waitMs;
    const notify = (info: WaitInfo) => {
      trace.onWait(info);
      onWait?.(info);
    };
    const traced = { ...options, call: trace, onWait: mayWait ? notify : onWait };
    let calling: Promise<Lease | null> | undefined;
    const begin = async () => {
      try {
        calling ??= this[method](name, traced); // once, also if a subscriber runs it twice
        return await calling === null ? "busy" : "granted"; // not the lease: its owner id is a secret
      } finally {
        trace.end();
      }
    };
    await CALL_CHANNEL.tracePromise(() => {
      const begun = trace.event[RUN_CALL]?.(() => {
        const ended = begin();
        ended.catch(() => {}); // the subscriber may drop it; the caller gets the error in any case
        return ended;
      });
      return calling === undefined || begun === undefined ? begin() : begun;
    }, trace.event);
    return await calling!;
  }

  #query(name: string): Promise<LockSnapshot> {
    let query = this.#queries.get(name);
    if (query === undefined) {
      query = outside(() => this.#lock.query(name, { maxWaiters: 0 }))
        .finally(() => this.#queries.delete(name));
      this.#queries.set(name, query);
    }
    return query;
  }
}
