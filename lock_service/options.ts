import type { AttachableLock, DistributedLock } from "../core/contract/distributed_lock.ts";
import {
  callback,
  duration,
  type OptionTable,
  readTable,
  required,
  text,
  ttl,
} from "../core/contract/options.ts";
import { promiseTry } from "../core/contract/promise_try.ts";
import { REGISTER_OPTIONS } from "../http/shared/server.ts";
import type { LockRoutesRequest } from "./fastify_types.ts";

/** The action and the lock of a request: `authorize` decides about them. */
export interface Authorization {
  /** The action that the request asks for. */
  readonly action: "acquire" | "renew" | "release" | "query";
  /** The name of the lock. */
  readonly key: string;
}

/** Options of {@linkcode lockRoutes}. */
export interface LockRoutesOptions {
  /** A strategy with `attach`, so that leases outlive this process: only `RedisLock` has it. */
  lock: DistributedLock;
  /**
   * Returns the *principal* of a request: a tenant, a user, a service. The principal is part of the owner id, so an
   * `id` from an access log is useless under another principal. Return `undefined` if the credentials are missing
   * or wrong (401 with `WWW-Authenticate`), and `null` if the principal may not do this (403). An error with a
   * `statusCode` from 400 to 499 is sent to the client, with its `message` and `headers`; any other becomes a 500.
   * All principals share the same locks: check `authorization.key` if a principal may use only some of them.
   */
  authorize(
    request: LockRoutesRequest,
    authorization: Authorization,
  ): string | null | undefined | Promise<string | null | undefined>;
  /**
   * The `WWW-Authenticate` header of each 401: how clients authenticate.
   *
   * @default {"Bearer"}
   */
  challenge?: string;
  /**
   * How long in ms a client should wait before it tries again when another owner holds the lock. Up to half of it
   * comes on top, at random. The default may be the whole TTL, even if clients hold their locks for a moment only.
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
   * How long in ms the body of a request may take to arrive after its headers; then the answer is 408. For
   * the headers, set `requestTimeout` of Fastify.
   *
   * @default {10000}
   */
  maxBodyMs?: number;
  /**
   * Called with the error behind each 500 and 503, for your logs: responses never show it. Not called for the
   * 503 that waiting requests get when the server closes. It may be async. Errors that it throws are ignored.
   */
  onError?: (error: unknown) => void;
}

export const LOCK_ROUTES_OPTIONS = {
  ...REGISTER_OPTIONS,
  lock: required(checkLock),
  authorize: required(checkAuthorize),
  challenge: text({ isOneLine: true }, "Bearer"),
  retryAfterMs: duration(),
  defaultTtlMs: ttl(30_000),
  maxTtlMs: ttl(300_000),
  maxWaitMs: duration({ min: 0, otherwise: 30_000 }),
  maxBodyMs: duration({ otherwise: 10_000 }),
  onError: callback(() => {}),
} satisfies OptionTable<LockRoutesOptions>;

/**
 * Checks the options, and fills in the defaults.
 *
 * @throws {TypeError|RangeError} If an option is bad or unknown.
 */
export function readOptions(options: LockRoutesOptions) {
  const table = { ...LOCK_ROUTES_OPTIONS, defaultTtlMs: ttl() };
  const { lock, onError, ...read } = readTable("lockRoutes", options, table);
  // A lower `maxTtlMs` lowers the default, but not a `defaultTtlMs` that is given.
  const { defaultTtlMs = Math.min(LOCK_ROUTES_OPTIONS.defaultTtlMs.default, read.maxTtlMs) } = read;
  duration({ min: defaultTtlMs }).check("'maxTtlMs'", read.maxTtlMs);
  // A failure to log must not fail the request, or the process.
  const report = (error: unknown) => void promiseTry(() => onError(error)).catch(() => {});
  return { ...read, defaultTtlMs, lock: lock as AttachableLock, report };
}

function checkAuthorize(_what: string, authorize: unknown): void {
  if (typeof authorize === "function") return;
  throw new TypeError(
    "Cannot register lockRoutes without the function 'authorize': anybody could use the locks",
  );
}

function checkLock(_what: string, lock: unknown): void {
  if ((lock as Partial<DistributedLock> | undefined)?.capabilities?.attach === true) return;
  throw new TypeError(
    "Cannot register lockRoutes as the lock's strategy has no 'attach', so its leases would end with " +
      "this process: use RedisLock",
  );
}
