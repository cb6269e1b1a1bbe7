import type { RenewalLate } from "../core/contract/distributed_lock.ts";
import { callback, type OptionTable } from "../core/contract/options.ts";
import { STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";

/** Options of {@linkcode openLock} that belong to the program; the URL has the others. */
export interface OpenLockOptions extends StrategyOptions {
  /**
   * Called when less than a third of a lease's time is left because no renewal was answered, on Redis and
   * ZooKeeper. See the option of `RedisLock`.
   */
  onRenewalLate?: ((late: RenewalLate) => void) | undefined;
}

export const OPEN_LOCK_OPTIONS = {
  ...STRATEGY_OPTIONS,
  onRenewalLate: callback(),
} satisfies OptionTable<OpenLockOptions>;
