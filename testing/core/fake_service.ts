/**
 * A lock service in the test's hand: it answers when told to. For the engine's own logic only; what
 * servers do is tested on servers.
 *
 * @module
 */
import { instant } from "../../core/clock.ts";
import type { Grant, LeaseActions, ReleaseAnswer, RenewAnswer } from "../../core/grant.ts";
import type { ManagedLease } from "../../core/lease.ts";
import { LeaseEngine } from "../../core/lease_engine.ts";
import { FakeClock } from "./fake_clock.ts";

/** A request that waits for its answer. */
export interface Pending<T> {
  readonly ttlMs: number | undefined;
  readonly sentMs: number;
  answer(answer: T): void;
  fail(error: unknown): void;
}

/** What a test holds. */
export interface FakeService {
  readonly clock: FakeClock;
  readonly engine: LeaseEngine;
  readonly lease: ManagedLease;
  readonly renewals: Pending<RenewAnswer>[];
  readonly releases: Pending<ReleaseAnswer>[];
}

function ask<T>(clock: FakeClock, list: Pending<T>[], ttlMs?: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  list.push({ ttlMs, sentMs: clock.now(), answer: resolve, fail: reject });
  return promise;
}

/** Opens a lease of 3,000 ms, or what `grant` says. */
export function openLease(grant: Partial<Grant> = {}): FakeService {
  const clock = new FakeClock();
  const engine = new LeaseEngine(clock);
  const renewals: Pending<RenewAnswer>[] = [];
  const releases: Pending<ReleaseAnswer>[] = [];
  const actions: LeaseActions = {
    renew: (ttlMs) => ask(clock, renewals, ttlMs),
    release: () => ask(clock, releases),
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
  return { clock, engine, lease, renewals, releases };
}

/** What a TTL of 3,000 ms is worth: 1 % and 2 ms less. */
export const PROVABLE_MS = 3_000 - 30 - 2;
