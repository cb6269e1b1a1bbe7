/**
 * Options that all integrations share, and the name of the lock for a request.
 *
 * @module
 */
import type { LockError } from "../../core/errors.ts";
import { checkDuration } from "../../core/validate.ts";

/** Options of every integration. */
export interface HoldOptions {
  /**
   * How long in ms a request may wait for the lock; 0 for not at all.
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
   * The reaction when the lock service is out of reach. `"reject"` answers 503; `"proceed"` runs the
   * handler *without* a lease, for work that may be done twice rather than not at all. A
   * `LockSetupError` is no outage: it fails the request as an error of the handler would.
   *
   * @default {"reject"}
   */
  onUnavailable?: "reject" | "proceed";
  /**
   * The longest time in ms that a request may hold the lock. It then loses its lease, so that a
   * handler that hangs, or a stream that nobody reads, cannot block the lock.
   *
   * @default {60000}
   */
  maxHoldMs?: number;
  /** The name of a response header for the fencing token; none unless given. */
  fencingHeader?: string;
  /**
   * Called with the error behind each 503, for your logs: responses never show it. Also called with
   * what a handler throws after its 503 for a lost lease, where the framework does not see it.
   */
  onError?: (error: unknown) => void;
}

/**
 * The name of the lock, or a function that finds it; with `undefined` there is no lock for this
 * request. A name that no lock can have (empty, longer than 1,000 characters, not well-formed) gets a
 * 400, since it may stem from the request. Whatever the function throws fails the request as an error
 * of the handler would.
 */
export type LockKey<Args extends unknown[], Key extends string | undefined = string | undefined> =
  | string
  | ((...args: Args) => Key | Promise<Key>);

/** Options with their defaults. */
export interface HoldSettings {
  readonly waitMs: number;
  readonly busyStatus: 409 | 423;
  readonly proceeds: boolean;
  readonly maxHoldMs: number;
  /**
   * Whether leases are renewed automatically.
   *
   * @default {true}
   */
  readonly autoRenew?: boolean;
  readonly fencingHeader: string | undefined;
  readonly onError: (error: unknown) => void;
}

/** The name of the lock for this request. */
export function nameOf<Args extends unknown[]>(
  key: LockKey<Args>,
  ...args: Args
): string | undefined | Promise<string | undefined> {
  return typeof key === "string" ? key : key(...args);
}

/** Default of {@linkcode HoldOptions.maxHoldMs}. */
export const DEFAULT_MAX_HOLD_MS = 60_000;

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Fills in the defaults and checks the options, so that a mistake shows when the server starts. */
export function readSettings(options: HoldOptions): HoldSettings {
  const {
    waitMs = 0,
    busyStatus = 409,
    onUnavailable = "reject",
    maxHoldMs = DEFAULT_MAX_HOLD_MS,
    fencingHeader,
    onError = () => {},
  } = options;
  checkDuration("waitMs", waitMs, 0);
  checkDuration("maxHoldMs", maxHoldMs);
  checkOneOf("busyStatus", busyStatus, [409, 423]);
  checkOneOf("onUnavailable", onUnavailable, ["reject", "proceed"]);
  if (fencingHeader !== undefined && !TOKEN.test(fencingHeader)) {
    throw new TypeError("Cannot use 'fencingHeader' as it is not the name of a header");
  }
  if (typeof onError !== "function") {
    throw new TypeError("Cannot use 'onError' as it is not a function");
  }
  const proceeds = onUnavailable === "proceed";
  return { waitMs, busyStatus, proceeds, maxHoldMs, fencingHeader, onError };
}

function checkOneOf(option: string, value: unknown, allowed: readonly unknown[]): void {
  if (allowed.includes(value)) return;
  const names = allowed.map((each) => JSON.stringify(each)).join(" or ");
  throw new TypeError(`Cannot use '${option}' as it must be ${names}`);
}

/** Checks a key before any request comes. */
export function checkKey(key: unknown): void {
  if (typeof key === "string" || typeof key === "function") return;
  throw new TypeError("Cannot use 'key' as it must be a string or a function");
}

/** Reports the error behind a 503 for the logs; a listener that throws changes nothing. */
export function report(settings: HoldSettings, error: LockError | unknown): void {
  try {
    settings.onError(error);
  } catch {
    // The response does not depend on logs.
  }
}
