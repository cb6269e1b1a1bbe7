/**
 * The options of the lock service, checked.
 *
 * @module
 */
import type { AttachableLock, DistributedLock } from "../core/distributed_lock.ts";
import { checkDuration, checkTtl } from "../core/validate.ts";
import type { LockRoutesRequest } from "./fastify_types.ts";

/** The action and the lock of a request, passed to `authorize`. */
export interface Authorization {
  /** The action. */
  readonly action: "acquire" | "renew" | "release" | "query";
  /** The name of the lock. */
  readonly key: string;
}

/** Options of {@linkcode lockRoutes}. */
export interface LockRoutesOptions {
  /** A strategy that can attach: Redis. */
  lock: DistributedLock;
  /**
   * Returns the *principal* of a request: a tenant, a user, a service. It is part of the owner id of
   * its locks, so that a lock's `id`, which appears in access logs, is useless to other principals.
   * `null` rejects the request (403). An error with a `statusCode` below 500 is shown to the client,
   * with its `message` and `headers`; any other becomes a 500. All principals share the same locks:
   * check `authorization.key` if not every principal may use every lock. Without this hook the plugin
   * does not register.
   */
  authorize(
    request: LockRoutesRequest,
    authorization: Authorization,
  ): string | null | Promise<string | null>;
  /**
   * The TTL in ms of a lease if the client asks for none; never more than `maxTtlMs`.
   *
   * @default {30000}
   */
  defaultTtlMs?: number;
  /**
   * The longest TTL in ms that a client may ask for.
   *
   * @default {300000}
   */
  maxTtlMs?: number;
  /**
   * The longest time in ms that a client may wait for a lock.
   *
   * @default {30000}
   */
  maxWaitMs?: number;
  /**
   * Called with the error behind each 500 and 503, for your logs, unless the server closes. Responses
   * never show it.
   */
  onError?: (error: unknown) => void;
}

/** Default of {@linkcode LockRoutesOptions.defaultTtlMs}. */
export const DEFAULT_LEASE_TTL_MS = 30_000;
/** Default of {@linkcode LockRoutesOptions.maxTtlMs}. */
export const DEFAULT_MAX_TTL_MS = 300_000;
/** Default of {@linkcode LockRoutesOptions.maxWaitMs}. */
export const DEFAULT_MAX_WAIT_MS = 30_000;

/** The longest and the default times that clients get, in ms. */
export interface Limits {
  readonly defaultTtlMs: number;
  readonly maxTtlMs: number;
  readonly maxWaitMs: number;
}

/** Options with their defaults. */
export interface LockRoutesSettings {
  readonly lock: AttachableLock;
  readonly authorize: LockRoutesOptions["authorize"];
  readonly limits: Limits;
  readonly report: (error: unknown) => void;
}

/**
 * Fills in the defaults and checks the options.
 *
 * @throws {TypeError|RangeError} If an option is bad.
 */
export function readOptions(options: LockRoutesOptions): LockRoutesSettings {
  const {
    lock,
    maxTtlMs = DEFAULT_MAX_TTL_MS,
    maxWaitMs = DEFAULT_MAX_WAIT_MS,
    defaultTtlMs = Math.min(DEFAULT_LEASE_TTL_MS, maxTtlMs),
    onError = () => {},
  } = options;
  checkLock(lock);
  if (typeof options.authorize !== "function") {
    throw new TypeError("Cannot register lockRoutes without 'authorize': anybody could use it");
  }
  if (typeof onError !== "function") {
    throw new TypeError("Cannot use 'onError' as it is not a function");
  }
  checkTtl(defaultTtlMs);
  checkDuration("maxTtlMs", maxTtlMs, defaultTtlMs);
  checkDuration("maxWaitMs", maxWaitMs, 0);
  const limits = { defaultTtlMs, maxTtlMs, maxWaitMs };
  const authorize: LockRoutesSettings["authorize"] = (...args) => options.authorize(...args);
  return { lock, authorize, limits, report: quiet(onError) };
}

/** A listener that throws changes nothing. */
function quiet(listener: (error: unknown) => void): (error: unknown) => void {
  return (error) => {
    try {
      listener(error);
    } catch {
      // The response does not depend on logs.
    }
  };
}

function checkLock(lock: DistributedLock): asserts lock is AttachableLock {
  if (lock?.capabilities?.attach === true) return;
  throw new TypeError(
    "Cannot register lockRoutes as leases must outlive this process: " +
      "the lock's strategy has no 'attach'",
  );
}
