import type { LockMode, RenewalLate } from "../core/contract/distributed_lock.ts";
import type { LeaseLostReason } from "../core/contract/errors.ts";
import {
  badValue,
  callback,
  describe,
  duration,
  flag,
  label,
  oneOf,
  type OptionTable,
  ttl,
} from "../core/contract/options.ts";
import { STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";
import { FakeClock } from "./fake_clock.ts";

/** Options of {@linkcode FakeLock}. */
export interface FakeLockOptions extends StrategyOptions {
  /**
   * How long, in ms, a lease is valid without renewal.
   *
   * @default {10000}
   */
  ttlMs?: number | undefined;
  /**
   * After how many ms without an answer a call rejects with a `LockUnavailableError`. A request that fails, as
   * in an outage, rejects at once: no test should wait for that.
   *
   * @default {5000}
   */
  unavailableAfterMs?: number | undefined;
  /** As with `RedisLock`: called when less than a third of a lease's time is left. */
  onRenewalLate?: ((late: RenewalLate) => void) | undefined;
  /**
   * The time of this lock. With it, `disposeTimeoutMs` is 0 unless given: the time stands still while a test
   * disposes of its lock.
   *
   * @default the clocks and timers of the platform
   */
  clock?: FakeClock | undefined;
}

/** Options of {@linkcode FakeLock.holdElsewhere}. */
export interface FakeHolderOptions {
  /** The label of the holder, which `query()` and a `LockTimeoutError` show. */
  label?: string | undefined;
  /**
   * Whether the holder excludes all others, or only exclusive ones.
   *
   * @default {"exclusive"}
   */
  mode?: LockMode | undefined;
  /**
   * Whether to take the lock away if somebody holds it. The victim learns of it at its next renewal, as one on
   * Redis may: its lease is lost with the reason `"stolen"`.
   *
   * @default {false}
   */
  steal?: boolean | undefined;
  /**
   * After how many ms the lock becomes free without a release, as that of a process that was killed.
   *
   * @default no limit
   */
  ttlMs?: number | undefined;
}

/** A holder of a lock that seems to be another process. */
export interface FakeHolder extends Disposable {
  /** The name of the lock. */
  readonly name: string;
  /** The fencing token of its lease. */
  readonly fencingToken: bigint;
  /** Releases the lock: the next waiter gets it. Returns whether this holder still held it. */
  release(): boolean;
}

export const FAKE_LOCK_OPTIONS = {
  ...STRATEGY_OPTIONS,
  disposeTimeoutMs: duration({ min: 0 }),
  ttlMs: ttl(10_000),
  unavailableAfterMs: duration({ otherwise: 5_000 }),
  onRenewalLate: callback(),
  clock: { default: undefined, check: checkClock },
} satisfies OptionTable<FakeLockOptions>;

export const HOLDER_OPTIONS = {
  label: label(),
  mode: oneOf(["exclusive", "shared"], "exclusive"),
  steal: flag(false),
  ttlMs: ttl(),
} satisfies OptionTable<FakeHolderOptions>;

function checkClock(what: string, value: unknown): void {
  if (value instanceof FakeClock) return;
  throw new TypeError(badValue(what, "a FakeClock", describe(value)));
}

/** The reason of `loseLease()`. */
export const LOSS_REASON = oneOf<LeaseLostReason>(
  ["expired", "stolen", "unreachable", "session-expired", "max-hold", "disposed"],
);
