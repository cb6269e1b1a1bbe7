/**
 * Options that all integrations share. The key (the name of the lock for a request) is in `key.ts`,
 * options of one framework are in its entry.
 *
 * @module
 */
import type { LockError } from "../../core/contract/errors.ts";
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
  ttl,
} from "../../core/contract/options.ts";

import { checkKey, type LockKey } from "./key.ts";
import { checkMethods, type MethodOptions } from "./methods.ts";

/** Options of every integration. */
export interface HoldOptions {
  /**
   * How long in ms a request may wait for the lock; 0 to answer at once.
   *
   * @default {0}
   */
  waitMs?: number;
  /**
   * The status of the response if another request holds the lock.
   *
   * @default {409}
   */
  busyStatus?: 409 | 423;
  /**
   * How long in ms a client should wait before it tries again when another request holds the lock. Up to
   * half of it comes on top, at random. The default may be the whole TTL, even if requests hold the lock
   * for a moment only.
   *
   * @default the remaining time of the holder's lease
   */
  retryAfterMs?: number;
  /**
   * The reaction to an outage: `"reject"` answers 503, `"proceed"` runs the handler *without* a lease. The
   * latter is for work that is better done twice than not at all. It only ever follows an outage. A
   * `LockSetupError` fails the request like an error of the handler, and a lock that was disposed, at the
   * end of the server, always answers 503.
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
   * Called with the error behind each 503, for your logs: responses never show it. Also called with an
   * error that a handler throws after its lease was lost and the request got its 503: the framework
   * does not see that error. And if the service refuses to release the lock, which then stays held.
   */
  onError?: (error: unknown) => void;
}

/** What the options must be, and their defaults. */
export const HOLD_OPTIONS = {
  waitMs: duration({ min: 0, otherwise: 0 }),
  busyStatus: oneOf([409, 423], 409),
  retryAfterMs: duration(),
  onUnavailable: oneOf(["reject", "proceed"], "reject"),
  maxHoldMs: duration({ otherwise: 60_000 }),
  fencingHeader: { default: undefined, check: checkHeaderName },
  onError: callback(() => {}),
} satisfies OptionTable<HoldOptions>;

/** Options with their defaults. */
export type HoldSettings = ReadOptions<HoldOptions, typeof HOLD_OPTIONS> & {
  /**
   * Whether leases are renewed automatically.
   *
   * @default {true}
   */
  readonly autoRenew?: boolean;
};

/** The options of Fastify's `register()`, which it passes on to a plugin. */
export const REGISTER_OPTIONS = {
  prefix: { default: undefined, check: () => {} },
  logLevel: { default: undefined, check: () => {} },
  logSerializers: { default: undefined, check: () => {} },
};

/** The same for a wrapped handler. */
export const HANDLER_OPTIONS = {
  ...HOLD_OPTIONS,
  key: { default: undefined, check: checkKey },
} satisfies OptionTable<HoldOptions & { readonly key: LockKey<never> }>;

/** The same for middleware. */
export const MIDDLEWARE_OPTIONS = {
  ...HANDLER_OPTIONS,
  unlockedMethods: { default: ["HEAD", "OPTIONS"] as readonly string[], check: checkMethods },
} satisfies OptionTable<HoldOptions & MethodOptions & { readonly key: LockKey<never> }>;

const { fencingHeader: _, ...COMMON_OPTIONS } = HANDLER_OPTIONS;

/** The same for a handler of AWS Lambda. */
export const LAMBDA_OPTIONS = {
  ...COMMON_OPTIONS,
  // The invocation's time limits the lease anyway; the default of 60 s would be too short for a function
  // that runs for 15 minutes.
  maxHoldMs: duration({ otherwise: MAX_DURATION_MS }),
  marginMs: duration({ min: 0, otherwise: 500 }),
  ttlMs: ttl(10_000),
};

/**
 * Checks the options of an integration and fills in the defaults, when the server starts and not at the
 * first request.
 *
 * @param where What takes the options, for the message: `"fetchLock()"`.
 * @param options The options, or the key alone.
 * @throws {TypeError|RangeError} If an option is bad or unknown.
 */
export function readOptions<
  Options extends HoldOptions & { readonly key: unknown },
  Table extends OptionTable<Options>,
>(where: string, options: Options | string, table: Table): ReadOptions<Options, Table> {
  const given = typeof options === "string" ? { key: options } as unknown as Options : options;
  const read = readTable(where, given, table);
  checkKey("'key'", given.key);
  return read;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function checkHeaderName(what: string, name: unknown): void {
  if (typeof name === "string" && TOKEN.test(name)) return;
  const is = typeof name === "string" ? JSON.stringify(name) : describe(name);
  throw new TypeError(badValue(what, "the name of a header", is));
}

/** Passes the error behind a 503 to `onError`, and ignores what that throws. */
export function report(settings: HoldSettings, error: LockError | unknown): void {
  try {
    settings.onError(error);
  } catch {
    // A failure to log must not fail the request.
  }
}
