/**
 * Options that all integrations share. The key (the name of the lock for a request) is in `key.ts`,
 * options of one framework are in its entry.
 *
 * @module
 */
import type { LockError } from "../../core/contract/errors.ts";
import { checkDuration } from "../../core/contract/validate.ts";

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
   * handler that hangs, or a stream that nobody reads, cannot block the lock for ever.
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

/** Options with their defaults. */
export interface HoldSettings {
  readonly waitMs: number;
  readonly busyStatus: 409 | 423;
  readonly retryAfterMs: number | undefined;
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

/** Default of {@linkcode HoldOptions.maxHoldMs}. */
export const DEFAULT_MAX_HOLD_MS = 60_000;

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Fills in the defaults and checks the options when the server starts, not at the first request.
 *
 * @throws {TypeError|RangeError} If an option is bad.
 */
export function readSettings(options: HoldOptions): HoldSettings {
  const {
    waitMs = 0,
    busyStatus = 409,
    retryAfterMs,
    onUnavailable = "reject",
    maxHoldMs = DEFAULT_MAX_HOLD_MS,
    fencingHeader,
    onError = () => {},
  } = options;
  checkDuration("waitMs", waitMs, 0);
  checkDuration("maxHoldMs", maxHoldMs);
  if (retryAfterMs !== undefined) checkDuration("retryAfterMs", retryAfterMs);
  checkOneOf("busyStatus", busyStatus, [409, 423]);
  checkOneOf("onUnavailable", onUnavailable, ["reject", "proceed"]);
  if (fencingHeader !== undefined && !TOKEN.test(fencingHeader)) {
    const given = JSON.stringify(fencingHeader);
    throw new TypeError(
      `Cannot use 'fencingHeader' as it must be the name of a header: it is ${given}`,
    );
  }
  if (typeof onError !== "function") {
    throw new TypeError(`Cannot use 'onError' as it must be a function: it is a ${typeof onError}`);
  }
  const proceeds = onUnavailable === "proceed";
  return { waitMs, busyStatus, retryAfterMs, proceeds, maxHoldMs, fencingHeader, onError };
}

function checkOneOf(option: string, value: unknown, allowed: readonly unknown[]): void {
  if (allowed.includes(value)) return;
  const names = allowed.map((each) => JSON.stringify(each)).join(" or ");
  throw new TypeError(
    `Cannot use '${option}' as it must be ${names}: it is ${JSON.stringify(value)}`,
  );
}

/** Passes the error behind a 503 to `onError`, and ignores what that throws. */
export function report(settings: HoldSettings, error: LockError | unknown): void {
  try {
    settings.onError(error);
  } catch {
    // A failure to log must not fail the request.
  }
}
