/**
 * Publishes what calls and leases do, on the channels of `core/contract/channels.ts`. Code that may publish
 * asks `hasSubscribers` first, so that without subscribers nothing is allocated.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Channel, channel, tracingChannel } from "node:diagnostics_channel";
import { modeOf } from "../contract/call_options.ts";
import {
  type AcquireEvent,
  CHANNELS,
  type HoldEvent,
  RUN_CALL,
  type Runnable,
} from "../contract/channels.ts";
import type {
  AttachableAcquireOptions,
  DistributedLock,
  Lease,
  LockSnapshot,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { labelOf } from "../contract/options.ts";
import { BACKGROUND_CLOCK, type Cancel, SYSTEM_CLOCK } from "../time/clock.ts";

/** How long, in ms, a call waits before its holder is read. */
const BLOCKED_AFTER_MS = 100;

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

const acquire = tracingChannel(CHANNELS.acquire);
const { start, end, asyncStart, asyncEnd, error } = acquire;
const wait = channel(CHANNELS.wait);
const blocked = channel(CHANNELS.blocked);

/** The channels of leases. */
export const HOLD_CHANNELS: Readonly<
  Record<"grant" | "renewalLate" | "lost" | "release", Channel>
> = {
  grant: channel(CHANNELS.grant),
  renewalLate: channel(CHANNELS.renewalLate),
  lost: channel(CHANNELS.lost),
  release: channel(CHANNELS.release),
};

/** Whether somebody wants to know of calls. A grant tells how long its call has waited. */
export function areCallsTraced(): boolean {
  return start.hasSubscribers || asyncEnd.hasSubscribers || wait.hasSubscribers ||
    HOLD_CHANNELS.grant.hasSubscribers || blocked.hasSubscribers || end.hasSubscribers ||
    asyncStart.hasSubscribers || error.hasSubscribers;
}

/** Whether somebody wants to know of leases. */
export function areHoldsTraced(): boolean {
  return HOLD_CHANNELS.grant.hasSubscribers || HOLD_CHANNELS.release.hasSubscribers ||
    HOLD_CHANNELS.lost.hasSubscribers || HOLD_CHANNELS.renewalLate.hasSubscribers;
}

/**
 * Runs what belongs to no call, such as a renewal, outside of the async context of the call by which it came
 * about: the client's own spans would be shown inside that call, which is over.
 */
export const outside: <T>(run: () => T) => T = AsyncLocalStorage.snapshot();

/** Options of a call that is traced. */
export interface Traced {
  readonly call?: CallTrace | undefined;
}

/** The calls of one strategy instance. */
export class CallTraces {
  readonly #strategy: string;
  readonly #source: DistributedLock;
  readonly #label: string;
  /** The queries under way. Calls that wait for one lock share one. */
  readonly #queries = new Map<string, Promise<LockSnapshot>>();

  /** @param label That of the instance. */
  constructor(strategy: string, source: DistributedLock, label: string) {
    this.#strategy = strategy;
    this.#source = source;
    this.#label = label;
  }

  /** Makes a call, and publishes its beginning, its wait and its end. */
  async run<Options extends AttachableAcquireOptions, T extends Lease | null>(
    method: AcquireEvent["method"],
    name: string,
    options: Options,
    call: (options: Options & Traced) => Promise<T>,
  ): Promise<T> {
    const { ownerId, waitMs, onWait } = options;
    const label = ownerId === undefined ? options.label ?? this.#label : undefined;
    const event: Writable<AcquireEvent> & Runnable = {
      strategy: this.#strategy,
      method,
      name,
      mode: modeOf(options),
      ...label ? { label } : {},
      waitedMs: 0,
    };
    const trace = new CallTrace(event, () => this.#query(name));
    const mayWait = method === "acquire" ? waitMs !== 0 : method === "tryAcquire" && !!waitMs;
    const notify = (info: WaitInfo) => {
      trace.onWait(info);
      onWait?.(info);
    };
    const traced = { ...options, call: trace, onWait: mayWait ? notify : onWait };
    let calling: Promise<T> | undefined;
    const begin = async () => {
      try {
        calling ??= call(traced); // once, also if a subscriber runs it twice
        return await calling === null ? "busy" : "granted"; // not the lease: its owner id is a secret
      } finally {
        trace.end();
      }
    };
    await acquire.tracePromise(() => {
      const begun = event[RUN_CALL]?.(() => {
        const ended = begin();
        ended.catch(() => {}); // the subscriber may drop it; the caller gets the error in any case
        return ended;
      });
      return calling === undefined || begun === undefined ? begin() : begun;
    }, event);
    return await calling!;
  }

  #query(name: string): Promise<LockSnapshot> {
    let query = this.#queries.get(name);
    if (query === undefined) {
      query = outside(() => this.#source.query(name, { maxWaiters: 0 }))
        .finally(() => this.#queries.delete(name));
      this.#queries.set(name, query);
    }
    return query;
  }
}

/** One call. */
export class CallTrace {
  readonly event: Writable<AcquireEvent>;
  readonly #query: () => Promise<LockSnapshot>;
  readonly #startMs = SYSTEM_CLOCK.now();
  #hasWaited = false;
  #isOver = false;
  #cancelQuery: Cancel | null = null;

  constructor(event: Writable<AcquireEvent>, query: () => Promise<LockSnapshot>) {
    this.event = event;
    this.#query = query;
  }

  /** Takes the time, for what is published next. */
  takeTime(): void {
    this.event.waitedMs = SYSTEM_CLOCK.now() - this.#startMs;
  }

  onWait({ position, waiters }: WaitInfo): void {
    if (this.#hasWaited || this.#isOver) return;
    this.#hasWaited = true;
    if (position !== undefined) this.event.position = position;
    if (waiters !== undefined) this.event.waiters = waiters;
    this.takeTime();
    wait.publish(this.event);
    if (!blocked.hasSubscribers) return;
    const ask = () => void this.#publishHolder().catch(() => {}); // it only explains the wait
    this.#cancelQuery = BACKGROUND_CLOCK.schedule(ask, BLOCKED_AFTER_MS);
  }

  async #publishHolder(): Promise<void> {
    const { holders: [holder], holderCount } = await this.#query();
    if (this.#isOver || holderCount === 0) return;
    if (holder?.label !== undefined) this.event.holderLabel = holder.label;
    this.event.holderCount = holderCount;
    this.takeTime();
    blocked.publish(this.event);
  }

  end(): void {
    this.#isOver = true;
    this.#cancelQuery?.();
    this.takeTime();
  }
}

/** One lease. Made when the first event is published, or at its grant if somebody listens to any of them. */
export class HoldTrace {
  readonly #event: Writable<HoldEvent>;
  readonly #startMs: number | null;

  /** @param startMs When it was granted, in ms of the clock; `null` if nobody listened then. */
  constructor(strategy: string, lease: Lease, call: CallTrace | undefined, startMs: number | null) {
    const { name, mode, fencingToken, ownerId } = lease;
    const label = call === undefined ? labelOf(ownerId) : call.event.label;
    const labelled = label === undefined ? {} : { label };
    const called = call === undefined ? {} : { call: call.event };
    this.#startMs = startMs;
    this.#event = { strategy, name, mode, ...labelled, fencingToken, ...called };
  }

  publish(channel: Channel, nowMs: number, news: Partial<HoldEvent>): void {
    if (this.#startMs !== null) this.#event.heldMs = nowMs - this.#startMs;
    channel.publish(Object.assign(this.#event, news));
  }
}
