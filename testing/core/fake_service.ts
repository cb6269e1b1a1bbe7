/**
 * A fake lock service: each request waits until the test answers it. Only for tests of the lease engine;
 * strategies are tested on real servers.
 *
 * @module
 */
import { instant } from "../../core/time/clock.ts";
import type { Grant, LeaseActions, ReleaseAnswer, RenewAnswer } from "../../core/lease/grant.ts";
import type { ManagedLease } from "../../core/lease/lease.ts";
import { LeaseEngine } from "../../core/lease/lease_engine.ts";
import { FakeClock } from "./fake_clock.ts";

/** A request that has no answer yet. */
export interface Pending<T> {
  /** The requested TTL in ms; undefined for a release. */
  readonly ttlMs: number | undefined;
  /** When it was sent, in monotonic ms. */
  readonly sentMs: number;
  answer(answer: T): void;
  fail(error: unknown): void;
}

/** A lease, the engine and clock behind it, and its requests so far. */
export interface FakeService {
  readonly clock: FakeClock;
  readonly engine: LeaseEngine;
  readonly lease: ManagedLease;
  readonly renewals: Pending<RenewAnswer>[];
  readonly releases: Pending<ReleaseAnswer>[];
  /** The value of `remainingMs` at each `onRenewalLate`. */
  readonly late: number[];
}

function ask<T>(clock: FakeClock, list: Pending<T>[], ttlMs?: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  list.push({ ttlMs, sentMs: clock.now(), answer: resolve, fail: reject });
  return promise;
}

/** Opens a lease with a TTL of 3,000 ms, changed by `grant`. More actions may be given. */
export function openLease(
  grant: Partial<Grant> = {},
  more: Partial<LeaseActions> = {},
): FakeService {
  const clock = new FakeClock();
  const late: number[] = [];
  const engine = new LeaseEngine("test", clock, ({ remainingMs }) => late.push(remainingMs));
  const renewals: Pending<RenewAnswer>[] = [];
  const releases: Pending<ReleaseAnswer>[] = [];
  const actions: LeaseActions = {
    renew: (ttlMs) => ask(clock, renewals, ttlMs),
    release: () => ask(clock, releases),
    ...more,
  };
  const lease = engine.open({
    name: "n",
    ownerId: "me",
    fencingToken: 7n,
    sent: instant(clock),
    ttlMs: 3_000,
    validMs: 3_000,
    autoRenew: true,
    ...grant,
  }, actions)!;
  return { clock, engine, lease, renewals, releases, late };
}

/** How long a lease with a TTL of 3,000 ms can be proven: the TTL less 1 % and 2 ms of drift. */
export const PROVABLE_MS = 3_000 - 30 - 2;
