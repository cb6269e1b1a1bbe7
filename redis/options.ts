/**
 * The options of the Redis strategy.
 *
 * @module
 */
import type { RenewalLate } from "../core/contract/renewal_late.ts";
import { STRATEGY_NAMES, type StrategyOptions } from "../core/lease/lifetime.ts";
import { checkNames, type OptionNames } from "../core/contract/option_names.ts";
import { checkDuration, checkOptional, checkString, checkTtl } from "../core/contract/validate.ts";

/** Options of {@linkcode RedisLock}. */
export interface RedisLockOptions extends StrategyOptions {
  /**
   * How long in ms a lease is valid without renewal: 10 ms to 24 days. A dead holder blocks the lock for
   * this long.
   *
   * @default {10000}
   */
  ttlMs?: number | undefined;
  /**
   * The prefix of the locks' keys. May be empty, to share keys with other libraries that use a plain
   * `SET key token NX PX`: their locks and ours exclude each other.
   *
   * @default {"lock:"}
   */
  keyPrefix?: string | undefined;
  /**
   * How long in ms Redis may be unreachable before a call rejects with a `LockUnavailableError`.
   *
   * @default {5000}
   */
  unavailableAfterMs?: number | undefined;
  /**
   * How long in ms a command may go unanswered before a client that runs one command at a time
   * (deno-redis) drops its connection.
   *
   * @default {1000}
   */
  commandTimeoutMs?: number | undefined;
  /**
   * Whether a release makes the first waiter the holder. With `false` a release frees the lock and
   * notifies the first waiter, which then races for it. Use `false` where other libraries poll for the
   * same keys: with handoff they would starve.
   *
   * @default {true}
   */
  handoff?: boolean | undefined;
  /**
   * An early warning, called when less than a third of a lease's time is left because no renewal was
   * answered. Only for leases that are renewed automatically. Called once, and again only after a renewal
   * was answered. Errors that it throws are ignored.
   */
  onRenewalLate?: ((late: RenewalLate) => void) | undefined;
}

const NAMES: OptionNames & Record<keyof RedisLockOptions, true> = {
  ...STRATEGY_NAMES,
  onRenewalLate: true,
  ttlMs: true,
  keyPrefix: true,
  unavailableAfterMs: true,
  commandTimeoutMs: true,
  handoff: true,
};

/** Default of {@linkcode RedisLockOptions.ttlMs}. */
export const DEFAULT_TTL_MS = 10_000;
/** Default of {@linkcode RedisLockOptions.keyPrefix}. */
export const DEFAULT_KEY_PREFIX = "lock:";
/** Default of {@linkcode RedisLockOptions.unavailableAfterMs}. */
export const DEFAULT_UNAVAILABLE_AFTER_MS = 5_000;
/** Default of {@linkcode RedisLockOptions.commandTimeoutMs}. */
export const DEFAULT_COMMAND_TIMEOUT_MS = 1_000;

/** The strategy's own options, with their defaults filled in. */
type ReadOptions =
  & {
    readonly [Key in Exclude<keyof RedisLockOptions, keyof StrategyOptions | "onRenewalLate">]-?:
      NonNullable<RedisLockOptions[Key]>;
  }
  & Pick<RedisLockOptions, "onRenewalLate">;

/** Fills in the defaults of the strategy's own options and checks them. */
export function readOptions(
  options: RedisLockOptions,
): ReadOptions {
  checkNames("new RedisLock()", options, NAMES);
  const {
    ttlMs = DEFAULT_TTL_MS,
    keyPrefix = DEFAULT_KEY_PREFIX,
    unavailableAfterMs = DEFAULT_UNAVAILABLE_AFTER_MS,
    commandTimeoutMs = DEFAULT_COMMAND_TIMEOUT_MS,
    handoff = true,
    onRenewalLate,
  } = options;
  checkTtl(ttlMs);
  checkString("keyPrefix", keyPrefix);
  checkDuration("unavailableAfterMs", unavailableAfterMs);
  checkDuration("commandTimeoutMs", commandTimeoutMs);
  if (typeof handoff !== "boolean") {
    throw new TypeError("Cannot use 'handoff' as it is not a boolean");
  }
  checkOptional("onRenewalLate", onRenewalLate, "function");
  return { ttlMs, keyPrefix, unavailableAfterMs, commandTimeoutMs, handoff, onRenewalLate };
}
