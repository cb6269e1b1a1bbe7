/**
 * Publishes what calls and leases do. Code that may publish asks `hasSubscribers` first, so that without subscribers
 * nothing is allocated.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Channel,
  channel,
  type TracingChannel,
  tracingChannel,
} from "node:diagnostics_channel";
import {
  type AcquireEvent,
  CHANNELS,
  type HoldEvent,
  type Runnable,
} from "../contract/channels.ts";
import type {
  AttachableAcquireOptions,
  Lease,
  LockSnapshot,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { labelOf } from "../contract/options.ts";
import { BACKGROUND_CLOCK, type Cancel, SYSTEM_CLOCK } from "../time/clock.ts";

/** How long, in ms, a call waits before its holder is read. */
const BLOCKED_AFTER_MS = 100;

export const CALL_CHANNEL: TracingChannel<AcquireEvent> = tracingChannel(CHANNELS.acquire);
const { start, end, asyncStart, asyncEnd, error } = CALL_CHANNEL;
const wait = channel(CHANNELS.wait);
const blocked = channel(CHANNELS.blocked);

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

export function areHoldsTraced(): boolean {
  return HOLD_CHANNELS.grant.hasSubscribers || HOLD_CHANNELS.release.hasSubscribers ||
    HOLD_CHANNELS.lost.hasSubscribers || HOLD_CHANNELS.renewalLate.hasSubscribers;
}

/**
 * Runs what belongs to no call, such as a renewal, outside of the async context of the call by which it came
 * about: the client's own spans would be shown inside that call, which is over.
 */
export const outside: <T>(run: () => T) => T = AsyncLocalStorage.snapshot();

/** The options of a call as its strategy gets them: they are read, and its trace is there if it has one. */
export interface CallOptions extends AttachableAcquireOptions {
  readonly call?: CallTrace | undefined;
}

export class CallTrace {
  /** Only the trace writes it. */
  readonly event: { -readonly [Name in keyof AcquireEvent]: AcquireEvent[Name] } & Runnable;
  readonly #query: () => Promise<LockSnapshot>;
  readonly #startMs = SYSTEM_CLOCK.now();
  #hasWaited = false;
  #isOver = false;
  #cancelQuery: Cancel | null = null;

  constructor(event: AcquireEvent, query: () => Promise<LockSnapshot>) {
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

/** The event of a lease. Made when it is first published, or at its grant if somebody listens to any of them. */
export function holdEvent(
  strategy: string,
  { name, mode, fencingToken, ownerId }: Lease,
  call: CallTrace | undefined,
): HoldEvent {
  const label = call === undefined ? labelOf(ownerId) : call.event.label;
  const labelled = label === undefined ? {} : { label };
  const called = call === undefined ? {} : { call: call.event };
  return { strategy, name, mode, ...labelled, fencingToken, ...called };
}
