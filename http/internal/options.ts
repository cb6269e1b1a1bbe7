/**
 * The key and the options that integrations share. Options of one framework are in its entry.
 *
 * @module
 */
import type { DistributedLock } from "../../core/contract/distributed_lock.ts";
import {
  badValue,
  callback,
  describe,
  duration,
  MAX_DURATION_MS,
  oneOf,
  type OptionTable,
  type ReadOptions,
  readTable,
  required,
  ttl,
} from "../../core/contract/options.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import { HoldTimes } from "./hold_times.ts";

/**
 * The type of {@linkcode NO_LOCK}. It is not that of the symbol, which TypeScript would widen to `symbol` in the
 * result of a key function that is declared by itself.
 */
export interface NoLock {
  /** Only there to tell the type from all others. */
  readonly "@holdfast/lock": "NO_LOCK";
}

/**
 * The result of a key function for a request that needs no lock. It is explicit, so that no client skips
 * the lock by leaving out what the key is made of: `undefined` is an error.
 *
 * @example Only one method needs the lock
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { NO_LOCK } from "@holdfast/lock/http";
 * import { honoLock } from "@holdfast/lock/http/hono";
 * import { Hono } from "hono";
 *
 * await using locks = new MemoryLock();
 * const app = new Hono();
 * app.use(honoLock(locks, { key: (c) => c.req.raw.method === "GET" ? NO_LOCK : "orders" }));
 * ```
 */
export const NO_LOCK: NoLock = Symbol.for("@holdfast/lock/NO_LOCK") as unknown as NoLock;

/**
 * The name of the lock, or a function that returns it, or {@linkcode NO_LOCK} if the request needs none.
 *
 * - Make the name of what the request is about, decoded and validated, such as the number of an order,
 *   not of the URL: `/orders/42`, `/orders/%34%32` and `/orders/42/` would be three locks.
 * - If the request lacks something, throw an error with a `statusCode` from 400 to 499: the client gets this
 *   status and the error's `message` and `headers`. A `URIError`, as of `decodeURIComponent()`, is a 400.
 * - A name that no lock can have (empty, longer than 1,000 characters, not well-formed Unicode) is a 400,
 *   since it may come from the request.
 * - Any other error or result, even `undefined`, fails the request like an error of the handler, which does not run.
 */
export type LockKey<
  Args extends unknown[],
  Key extends string | NoLock = string | NoLock,
> = string | ((...args: Args) => Key | Promise<Key>);

/** Options of every integration. */
export interface HoldOptions {
  /**
   * How long in ms a request may wait for the lock; 0 to answer at once.
   *
   * @default {0}
   */
  waitMs?: number;
  /**
   * The status of the response if another request holds the lock. The problem's `type` is that of a busy
   * lock also with 503, the status of an outage.
   *
   * @default {409}
   */
  busyStatus?: 409 | 423 | 429 | 503;
  /**
   * How long in ms a client should wait before it tries again when another request holds the lock. Up to half of it
   * comes on top, at random. The default is the longest of the last ten times for which requests of this middleware
   * or handler held a lock in this process, 100 ms at least; of ten the second longest, so that one that hung does
   * not count. Until one has released its lock here, it is the remaining time of the holder's lease, up to the whole
   * TTL.
   *
   * @default for how long requests have held the lock
   */
  retryAfterMs?: number;
  /**
   * The reaction to an outage: `"reject"` answers 503, `"proceed"` runs the handler *without* a lease. The latter is
   * for work that is better done twice than not at all. It only ever follows an outage. A `LockSetupError` fails the
   * request like an error of the handler, and a lock that was disposed, at the end of the server, always answers 503.
   *
   * @default {"reject"}
   */
  onUnavailable?: "reject" | "proceed";
  /**
   * The longest time in ms that a request may hold the lock. After that it loses its lease, so that a
   * handler that hangs, or a stream that nobody reads, cannot block the lock forever.
   *
   * @default {60000}
   */
  maxHoldMs?: number;
  /** The name of a response header that carries the fencing token. Without it no header is sent. */
  fencingHeader?: string;
  /**
   * Called with the error behind each 503, for your logs: responses never show it. A busy lock is no error, whatever
   * `busyStatus` is. Also called with an error that a handler throws after the 503 for its lost lease: the framework
   * does not see that error. And if that 503, or the end of a response that waited for its release, cannot be sent,
   * or the service refuses to release the lock, which then stays held. It may be async; its errors are ignored.
   */
  onError?: (error: unknown) => void;
}

/**
 * Options of middleware, which sees all requests of its routes, also those that have nothing to do with the lock.
 * Wrapped handlers (`fetchLock`, `lambdaLock`) take the lock whatever the method. `Args` are the arguments of the key:
 * the request of Express, Fastify and NestJS, the context of Hono and Koa.
 */
export interface MiddlewareOptions<Args extends unknown[]> extends HoldOptions {
  /** The name of the lock for a request; {@linkcode NO_LOCK} if it needs none. */
  key: LockKey<Args>;
  /**
   * The methods, in capitals, whose requests run *without* the lock and without a lease. A handler must
   * change nothing under them; that of GET neither, since HEAD runs it. `[]` locks all methods.
   *
   * @default {["HEAD", "OPTIONS"]}
   */
  unlockedMethods?: readonly string[];
}

export const HOLD_OPTIONS = {
  waitMs: duration({ min: 0, otherwise: 0 }),
  busyStatus: oneOf([409, 423, 429, 503], 409),
  retryAfterMs: duration(),
  onUnavailable: oneOf(["reject", "proceed"], "reject"),
  maxHoldMs: duration({ otherwise: 60_000 }),
  fencingHeader: { default: undefined, check: checkHeaderName },
  onError: callback(() => {}),
} satisfies OptionTable<HoldOptions>;

export type HoldSettings = ReadOptions<HoldOptions, typeof HOLD_OPTIONS> & {
  readonly autoRenew?: boolean;
  readonly holdTimes: HoldTimes;
};

export type MiddlewareSettings<Args extends unknown[]> = HoldSettings & {
  readonly key: LockKey<Args>;
  readonly unlockedMethods: readonly string[];
};

export const HANDLER_OPTIONS = {
  ...HOLD_OPTIONS,
  key: required(checkKey),
} satisfies OptionTable<HoldOptions & { readonly key: LockKey<never> }>;

export const MIDDLEWARE_OPTIONS = {
  ...HANDLER_OPTIONS,
  unlockedMethods: { default: ["HEAD", "OPTIONS"] as readonly string[], check: checkMethods },
} satisfies OptionTable<MiddlewareOptions<never>>;

const { fencingHeader: _, ...COMMON_OPTIONS } = HANDLER_OPTIONS;

export const LAMBDA_OPTIONS = {
  ...COMMON_OPTIONS,
  // The invocation's time limits the lease anyway; 60 s would be too short for a function that runs for 15 minutes.
  maxHoldMs: duration({ otherwise: MAX_DURATION_MS }),
  marginMs: duration({ min: 0, otherwise: 500 }),
  ttlMs: ttl(10_000),
};

/**
 * Called when the server starts, and not at the first request.
 *
 * @param where What takes the options, for the message: `"fetchLock()"`.
 * @throws {TypeError|RangeError} If an option is bad or unknown.
 */
export function readOptions<
  Options extends HoldOptions & { readonly key: unknown },
  Table extends OptionTable<Options>,
>(
  where: string,
  options: Options | string,
  table: Table,
): ReadOptions<Options, Table> & { readonly holdTimes: HoldTimes } {
  const given = typeof options === "string" ? { key: options } as unknown as Options : options;
  return { ...readTable(where, given, table), holdTimes: new HoldTimes() };
}

/**
 * @param what What it is, for the message: `"the first argument of fetchLock()"`.
 * @param next The argument after it: a lock there shows that the two are swapped.
 * @throws {TypeError} If it is no lock, nor, with `isFactory`, a function that makes one.
 */
export function checkLock(what: string, lock: unknown, next?: unknown, isFactory = false): void {
  if (!isLock(next) && (isLock(lock) || isFactory && typeof lock === "function")) return;
  const must = isFactory ? "a lock, or a function that makes one" : "a lock";
  const advice = isLock(next)
    ? "the arguments are swapped"
    : "pass a strategy, such as a RedisLock";
  throw new TypeError(`${badValue(what, must, describe(lock))}: ${advice}`);
}

function isLock(value: unknown): boolean {
  return typeof (value as Partial<DistributedLock> | null | undefined)?.acquire === "function";
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function checkKey(what: string, key: unknown): void {
  if (typeof key === "string" || typeof key === "function") return;
  throw new TypeError(badValue(what, "a string or a function", describe(key)));
}

function checkMethods(what: string, methods: unknown): void {
  const isList = Array.isArray(methods) &&
    methods.every((method) => typeof method === "string" && /^[A-Z-]+$/.test(method));
  if (isList) return;
  throw new TypeError(badValue(what, "a list of methods in capitals", JSON.stringify(methods)));
}

function checkHeaderName(what: string, name: unknown): void {
  if (typeof name === "string" && TOKEN.test(name)) return;
  const is = typeof name === "string" ? JSON.stringify(name) : describe(name);
  throw new TypeError(badValue(what, "the name of a header", is));
}

/** Passes an error to `onError`. A failure to log must not fail the request, or the process. */
export function report(settings: HoldSettings, error: unknown): void {
  promiseTry(() => settings.onError(error)).catch(() => {});
}
