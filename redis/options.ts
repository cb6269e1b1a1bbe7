import type { RenewalLate } from "../core/contract/distributed_lock.ts";
import { callback, duration, flag, type OptionTable, text, ttl } from "../core/contract/options.ts";
import { STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";

/** Options of {@linkcode RedisLock}. */
export interface RedisLockOptions extends StrategyOptions {
  /**
   * How long in ms a lease is valid without renewal: 10 ms to 24 days. A dead holder blocks the lock for this long.
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

/**
 * Tells the nonce of a call under a chosen owner id, for `redlock/`, which must know what the key holds. Not an
 * option of users: tables do not see symbols.
 */
export const OWN_NONCE: unique symbol = Symbol("the nonce of a call under a chosen owner id");

/** Options of `redlock/`. */
export interface OwnNonceOptions extends RedisLockOptions {
  readonly [OWN_NONCE]?: (ownerId: string) => string | undefined;
}

export const REDIS_LOCK_OPTIONS = {
  ...STRATEGY_OPTIONS,
  ttlMs: ttl(10_000),
  keyPrefix: text({}, "lock:"),
  unavailableAfterMs: duration({ otherwise: 5_000 }),
  commandTimeoutMs: duration({ otherwise: 1_000 }),
  handoff: flag(true),
  onRenewalLate: callback(),
} satisfies OptionTable<RedisLockOptions>;
