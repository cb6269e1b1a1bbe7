/**
 * Checks of arguments, made before any I/O.
 *
 * @module
 */
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  RequestOptions,
} from "./distributed_lock.ts";

/** Longest name of a lock, in UTF-16 code units. */
export const MAX_NAME_LENGTH = 1_000;
/** Longest owner id of a caller's own making, in UTF-16 code units. */
export const MAX_OWNER_ID_LENGTH = 500;
/** Longest label, in UTF-16 code units. */
export const MAX_LABEL_LENGTH = 100;
/** Longest duration in ms: what a timer can wait for (24.8 days). */
export const MAX_DURATION_MS = 2 ** 31 - 1;
/** Shortest TTL in ms: below it the drift allowance would eat the lease. */
export const MIN_TTL_MS = 10;

/** What a text argument must be. */
interface TextRule {
  readonly max: number;
  readonly min?: number;
}

function checkText(what: string, value: unknown, { max, min = 1 }: TextRule): asserts value {
  if (typeof value !== "string") {
    throw new TypeError(`Cannot use ${what} as it must be a string: it is a ${typeof value}`);
  }
  if (value.length < min || value.length > max) {
    throw new RangeError(
      `Cannot use ${what} as it must have ${min} to ${max} characters: it has ${value.length}`,
    );
  }
  if (!value.isWellFormed()) {
    throw new TypeError(`Cannot use ${what} as it is not well-formed Unicode`);
  }
}

/** Checks the name of a lock. */
export function checkName(name: unknown): asserts name is string {
  checkText("the lock name", name, { max: MAX_NAME_LENGTH });
}

/** Control characters are refused in what is shown to people, or stands in a line of its own. */
function checkPrintable(option: string, text: string): void {
  // deno-lint-ignore no-control-regex -- they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text)) {
    throw new RangeError(`Cannot use '${option}' as it holds a control character`);
  }
}

/** Checks an owner id that a caller made. */
export function checkOwnerId(ownerId: unknown): asserts ownerId is string {
  checkText("'ownerId'", ownerId, { max: MAX_OWNER_ID_LENGTH });
  checkPrintable("ownerId", ownerId as string);
}

/** Checks a label. */
export function checkLabel(label: unknown): asserts label is string {
  checkText("'label'", label, { max: MAX_LABEL_LENGTH });
  checkPrintable("label", label as string);
}

/** Checks any other text option. */
export function checkString(option: string, value: unknown): asserts value is string {
  checkText(`'${option}'`, value, { min: 0, max: MAX_NAME_LENGTH });
}

/** Checks a duration in ms: a whole number from `min` up to what a timer can wait for. */
export function checkDuration(option: string, value: unknown, min = 1): asserts value is number {
  if (typeof value !== "number") {
    throw new TypeError(`Cannot use '${option}' as it must be a number: it is a ${typeof value}`);
  }
  if (!Number.isInteger(value) || value < min || value > MAX_DURATION_MS) {
    throw new RangeError(
      `Cannot use '${option}' as it must be a whole number of ms ` +
        `from ${min} to ${MAX_DURATION_MS}: current value is ${value}`,
    );
  }
}

/** Checks a time to live in ms. */
export function checkTtl(ttlMs: unknown): asserts ttlMs is number {
  checkDuration("ttlMs", ttlMs, MIN_TTL_MS);
}

function checkOptional(option: string, value: unknown, type: "boolean" | "function"): void {
  if (value !== undefined && typeof value !== type) {
    throw new TypeError(`Cannot use '${option}' as it must be a ${type}: it is a ${typeof value}`);
  }
}

/** Checks the options of `acquire`, `tryAcquire` and `attach`; does not look whether the signal aborted. */
export function checkAcquireOptions(options: AcquireOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError("Cannot use the options as they must be an object");
  }
  if (options.signal !== undefined && !(options.signal instanceof AbortSignal)) {
    throw new TypeError("Cannot use 'signal' as it must be an AbortSignal");
  }
  checkOptional("autoRenew", options.autoRenew, "boolean");
  checkOptional("onWait", options.onWait, "function");
  if (options.maxHoldMs !== undefined) checkDuration("maxHoldMs", options.maxHoldMs);
  if (options.waitMs !== undefined) {
    checkDuration("waitMs", options.waitMs, 0);
    throw notSupported("This strategy has no 'waitMs' yet: use signal: AbortSignal.timeout(ms)");
  }
}

/** Checks the same options where callers may make owner ids. */
export function checkAttachableOptions(options: AttachableAcquireOptions): void {
  checkAcquireOptions(options);
  checkOptional("outlivesDisposal", options.outlivesDisposal, "boolean");
  if (options.ownerId !== undefined) checkOwnerId(options.ownerId);
  if (options.ttlMs !== undefined) checkTtl(options.ttlMs);
}

/** Checks the options of `request`, with the refusals of the Web Locks API. */
export function checkRequestOptions(options: RequestOptions): void {
  checkAcquireOptions(options);
  checkOptional("ifAvailable", options.ifAvailable, "boolean");
  checkOptional("steal", options.steal, "boolean");
  const mode: unknown = options.mode ?? "exclusive";
  if (mode !== "exclusive" && mode !== "shared") {
    throw new TypeError(`Cannot use 'mode' as it must be "exclusive" or "shared": it is ${mode}`);
  }
  if (options.steal && (options.ifAvailable || options.signal)) {
    throw notSupported("'steal' cannot be used with 'ifAvailable' or 'signal'");
  }
}

/** The error for what a strategy or the Web Locks API lacks. */
export function notSupported(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}
