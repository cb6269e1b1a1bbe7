/**
 * The options of the lock service, their defaults and their checks. The limits are applied in
 * `lock_request.ts`.
 *
 * @module
 */
import type { AttachableLock, DistributedLock } from "../core/contract/distributed_lock.ts";
import { checkDuration, checkString, checkTtl } from "../core/contract/validate.ts";
import type { LockRoutesRequest } from "./fastify_types.ts";
import { checkPrincipalLimits, type PrincipalLimits } from "./principal_limits.ts";

/** The action and the lock of a request: `authorize` decides about them. */
export interface Authorization {
  /** The action that the request asks for. */
  readonly action: "acquire" | "renew" | "release" | "query";
  /** The name of the lock. */
  readonly key: string;
}

/** The result of `authorize`: a principal, `undefined` if it is not known, `null` if it has no right. */
export type Principal = string | null | undefined;

/** Options of {@linkcode lockRoutes}. */
export interface LockRoutesOptions {
  /** A strategy with `attach`, so that leases outlive this process: only `RedisLock` has it. */
  lock: DistributedLock;
  /**
   * Returns the *principal* of a request: a tenant, a user, a service. The principal is part of the
   * owner id, so an `id` that somebody reads in an access log is useless under another principal.
   * Return `undefined` if the credentials are missing or wrong (401 with `WWW-Authenticate`), and
   * `null` if the principal may not do this (403). An error with a `statusCode` below 500 is sent to
   * the client, with its `message` and `headers`; any other error becomes a 500. All principals share the
   * same locks: check `authorization.key` if a principal may use only some of them. The plugin does not
   * register without this hook.
   */
  authorize(
    request: LockRoutesRequest,
    authorization: Authorization,
  ): Principal | Promise<Principal>;
  /**
   * The `WWW-Authenticate` header of each 401: how clients authenticate.
   *
   * @default {"Bearer"}
   */
  challenge?: string;
  /**
   * How long in ms a client should wait before it tries again when another owner holds the lock. Up to
   * half of it comes on top, at random. The default may be the whole TTL, even if clients hold their locks
   * for a moment only.
   *
   * @default the remaining time of the holder's lease
   */
  retryAfterMs?: number;
  /**
   * The TTL in ms of a lease if the client does not ask for one; at most `maxTtlMs`.
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
   * How many leases and waiting requests a principal may have, counted across all servers. Above that the
   * answer is 429. Without it nothing is counted.
   *
   * @default no limit
   */
  principalLimits?: PrincipalLimits;
  /**
   * How long in ms the body of a request may take to arrive after its headers; then the answer is 408. For
   * the headers, set `requestTimeout` of Fastify.
   *
   * @default {10000}
   */
  maxBodyMs?: number;
  /**
   * Called with the error behind each 500 and 503, for your logs: responses never show it. Also when a
   * reservation cannot be given back, which ends then by its expiry. Not called for the 503 that waiting
   * requests get when the server closes.
   */
  onError?: (error: unknown) => void;
}

/** Default of {@linkcode LockRoutesOptions.defaultTtlMs}. */
export const DEFAULT_LEASE_TTL_MS = 30_000;
/** Default of {@linkcode LockRoutesOptions.maxTtlMs}. */
export const DEFAULT_MAX_TTL_MS = 300_000;
/** Default of {@linkcode LockRoutesOptions.maxWaitMs}. */
export const DEFAULT_MAX_WAIT_MS = 30_000;
/** Default of {@linkcode LockRoutesOptions.maxBodyMs}. */
export const DEFAULT_MAX_BODY_MS = 10_000;

/** Default of {@linkcode LockRoutesOptions.challenge}. */
export const DEFAULT_CHALLENGE = "Bearer";

/** The default and the longest times, in ms, that clients get. */
export interface Limits {
  readonly defaultTtlMs: number;
  readonly maxTtlMs: number;
  readonly maxWaitMs: number;
  /** How long in ms to wait before a retry, instead of the rest of the holder's lease. */
  readonly retryAfterMs: number | undefined;
}

/** Options with their defaults. */
export interface LockRoutesSettings {
  readonly lock: AttachableLock;
  readonly authorize: LockRoutesOptions["authorize"];
  readonly challenge: string;
  readonly limits: Limits;
  readonly principalLimits: PrincipalLimits | undefined;
  readonly maxBodyMs: number;
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
    challenge = DEFAULT_CHALLENGE,
    maxBodyMs = DEFAULT_MAX_BODY_MS,
    retryAfterMs,
    principalLimits,
    onError = () => {},
  } = options;
  checkLock(lock);
  if (typeof options.authorize !== "function") {
    throw new TypeError(
      "Cannot register lockRoutes without the function 'authorize': anybody could use the locks",
    );
  }
  if (typeof onError !== "function") {
    throw new TypeError(`Cannot use 'onError' as it must be a function: it is a ${typeof onError}`);
  }
  checkTtl(defaultTtlMs);
  checkDuration("maxTtlMs", maxTtlMs, defaultTtlMs);
  checkDuration("maxWaitMs", maxWaitMs, 0);
  checkDuration("maxBodyMs", maxBodyMs);
  checkString("challenge", challenge);
  if (principalLimits !== undefined) checkPrincipalLimits(principalLimits);
  if (retryAfterMs !== undefined) checkDuration("retryAfterMs", retryAfterMs);
  const limits = { defaultTtlMs, maxTtlMs, maxWaitMs, retryAfterMs };
  const authorize: LockRoutesSettings["authorize"] = (...args) => options.authorize(...args);
  const report = quiet(onError);
  return { lock, authorize, challenge, limits, principalLimits, maxBodyMs, report };
}

/** Wraps a listener so that its own errors are ignored. */
function quiet(listener: (error: unknown) => void): (error: unknown) => void {
  return (error) => {
    try {
      listener(error);
    } catch {
      // A failure to log must not fail the request.
    }
  };
}

function checkLock(lock: DistributedLock): asserts lock is AttachableLock {
  if (lock?.capabilities?.attach === true) return;
  throw new TypeError(
    "Cannot register lockRoutes as the lock's strategy has no 'attach', so its leases would end with " +
      "this process: use RedisLock",
  );
}
