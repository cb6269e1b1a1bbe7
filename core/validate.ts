/**
 * Checks of the arguments that all strategies share, and their error messages. Checks of a
 * strategy's own options are in its folder. Every check runs before any I/O.
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
/** Longest owner id that a caller may pass in, in UTF-16 code units. */
export const MAX_OWNER_ID_LENGTH = 500;
/** Longest label, in UTF-16 code units. */
export const MAX_LABEL_LENGTH = 100;
/** Longest duration in ms: the longest delay of a timer (24.8 days). */
export const MAX_DURATION_MS = 2 ** 31 - 1;
/** Shortest TTL in ms: the allowance for drift would use up most of a shorter one. */
export const MIN_TTL_MS = 10;

/** The length that a text argument may have, in UTF-16 code units. */
interface TextRule {
  readonly max: number;
  readonly min?: number;
}

/** The type of a value, for error messages: `"a string"`, `"null"`. */
export function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

function checkText(what: string, value: unknown, { max, min = 1 }: TextRule): asserts value {
  if (typeof value !== "string") {
    throw new TypeError(
      `Cannot use ${what}: it must be a string, but it is ${describeType(value)}`,
    );
  }
  if (value.length < min || value.length > max) {
    throw new RangeError(
      `Cannot use ${what}: it must have ${min} to ${max} characters, but it has ${value.length}`,
    );
  }
  if (!value.isWellFormed()) {
    throw new TypeError(
      `Cannot use ${what}: it must be well-formed Unicode, but it contains a lone surrogate`,
    );
  }
}

/**
 * Checks the name of a lock.
 *
 * @throws {TypeError} If it is not a string of well-formed Unicode.
 * @throws {RangeError} If its length is not 1 to 1,000 UTF-16 code units.
 */
export function checkName(name: unknown): asserts name is string {
  checkText("the lock name", name, { max: MAX_NAME_LENGTH });
}

/** Refuses control characters: these texts are shown to people, and stored as one line of text. */
function checkPrintable(option: string, text: string): void {
  // deno-lint-ignore no-control-regex -- the expression looks for control characters
  if (/[\u0000-\u001f\u007f]/.test(text)) {
    throw new RangeError(
      `Cannot use '${option}': it must not contain control characters such as line breaks`,
    );
  }
}

/**
 * Checks an owner id that a caller passed in.
 *
 * @throws {TypeError} If it is not a string of well-formed Unicode.
 * @throws {RangeError} If its length is not 1 to 500 UTF-16 code units, or it contains a control
 * character.
 */
export function checkOwnerId(ownerId: unknown): asserts ownerId is string {
  checkText("'ownerId'", ownerId, { max: MAX_OWNER_ID_LENGTH });
  checkPrintable("ownerId", ownerId as string);
}

/**
 * Checks the label of a strategy instance.
 *
 * @throws {TypeError} If it is not a string of well-formed Unicode.
 * @throws {RangeError} If its length is not 1 to 100 UTF-16 code units, or it contains a control
 * character.
 */
export function checkLabel(label: unknown): asserts label is string {
  checkText("'label'", label, { max: MAX_LABEL_LENGTH });
  checkPrintable("label", label as string);
}

/**
 * Checks any other text option, which may be empty.
 *
 * @throws {TypeError} If it is not a string of well-formed Unicode.
 * @throws {RangeError} If it has more than 1,000 UTF-16 code units.
 */
export function checkString(option: string, value: unknown): asserts value is string {
  checkText(`'${option}'`, value, { min: 0, max: MAX_NAME_LENGTH });
}

/**
 * Checks a duration in ms: a whole number from `min` to {@linkcode MAX_DURATION_MS}.
 *
 * @throws {TypeError} If it is not a number.
 * @throws {RangeError} If it is not a whole number in this range.
 */
export function checkDuration(option: string, value: unknown, min = 1): asserts value is number {
  if (typeof value !== "number") {
    throw new TypeError(
      `Cannot use '${option}': it must be a number of ms, but it is ${describeType(value)}`,
    );
  }
  if (!Number.isInteger(value) || value < min || value > MAX_DURATION_MS) {
    throw new RangeError(
      `Cannot use '${option}': it must be a whole number of ms from ${min} to ${MAX_DURATION_MS}, ` +
        `but it is ${value}`,
    );
  }
}

/**
 * Checks a number of things: a whole number from 0.
 *
 * @throws {TypeError} If it is not a number.
 * @throws {RangeError} If it is not a whole number from 0.
 */
export function checkCount(option: string, value: unknown): asserts value is number {
  if (typeof value !== "number") {
    throw new TypeError(
      `Cannot use '${option}': it must be a number, but it is ${describeType(value)}`,
    );
  }
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(
      `Cannot use '${option}': it must be a whole number from 0, but it is ${value}`,
    );
  }
}

/**
 * Checks a time to live in ms.
 *
 * @throws {TypeError} If it is not a number.
 * @throws {RangeError} If it is not a whole number from {@linkcode MIN_TTL_MS} to
 * {@linkcode MAX_DURATION_MS}.
 */
export function checkTtl(ttlMs: unknown): asserts ttlMs is number {
  checkDuration("ttlMs", ttlMs, MIN_TTL_MS);
}

/**
 * Checks an option that is a function or left out.
 *
 * @throws {TypeError} If it is something else.
 */
export function checkFunction(option: string, value: unknown): void {
  checkOptional(option, value, "function");
}

function checkOptional(option: string, value: unknown, type: "boolean" | "function"): void {
  if (value !== undefined && typeof value !== type) {
    throw new TypeError(
      `Cannot use '${option}': it must be a ${type}, but it is ${describeType(value)}`,
    );
  }
}

/**
 * Checks the options of `acquire()`, `tryAcquire()` and `attach()`, but not whether the signal has
 * aborted.
 *
 * @throws {TypeError} If the options or one of them have a wrong type.
 * @throws {RangeError} If an option is out of range.
 * @throws {DOMException} `NotSupportedError` for `waitMs`, and for the mode `"shared"`.
 */
export function checkAcquireOptions(options: AcquireOptions): void {
  checkCommonOptions(options);
  // Only `request()` has this option. Here it must not be ignored: the lease would be exclusive.
  const { mode } = options as Pick<RequestOptions, "mode">;
  if (checkMode(mode) === "shared") {
    throw notSupported('Cannot use the mode "shared": this strategy offers mode "exclusive" only');
  }
}

/** Checks the options that all calls have. */
function checkCommonOptions(options: AcquireOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(
      `Cannot use the options: they must be an object, but they are ${describeType(options)}`,
    );
  }
  if (options.signal !== undefined && !(options.signal instanceof AbortSignal)) {
    throw new TypeError(
      `Cannot use 'signal': it must be an AbortSignal, but it is ${describeType(options.signal)}`,
    );
  }
  checkOptional("autoRenew", options.autoRenew, "boolean");
  checkOptional("onWait", options.onWait, "function");
  if (options.maxHoldMs !== undefined) checkDuration("maxHoldMs", options.maxHoldMs);
  if (options.waitMs !== undefined) {
    checkDuration("waitMs", options.waitMs, 0);
    throw notSupported(
      "Cannot use 'waitMs': no strategy offers it yet; pass signal: AbortSignal.timeout(ms) instead",
    );
  }
}

/**
 * Checks the options of `acquire()`, `tryAcquire()` and `attach()` of an `AttachableLock`.
 *
 * @throws {TypeError} If the options or one of them have a wrong type.
 * @throws {RangeError} If an option is out of range.
 * @throws {DOMException} `NotSupportedError` for `waitMs`.
 */
export function checkAttachableOptions(options: AttachableAcquireOptions): void {
  checkAcquireOptions(options);
  checkOptional("outlivesDisposal", options.outlivesDisposal, "boolean");
  if (options.ownerId !== undefined) checkOwnerId(options.ownerId);
  if (options.ttlMs !== undefined) checkTtl(options.ttlMs);
}

/**
 * Checks the options of `request()`.
 *
 * @throws {TypeError} If the options or one of them have a wrong type.
 * @throws {RangeError} If an option is out of range.
 * @throws {DOMException} `NotSupportedError` for `waitMs`, and for combinations that the Web Locks API
 * refuses.
 */
export function checkRequestOptions(options: RequestOptions): void {
  checkCommonOptions(options);
  checkOptional("ifAvailable", options.ifAvailable, "boolean");
  checkOptional("steal", options.steal, "boolean");
  checkMode(options.mode);
  if (options.steal && (options.ifAvailable || options.signal)) {
    throw notSupported(
      "Cannot use 'steal' with 'ifAvailable' or 'signal': a steal never waits, so leave them out",
    );
  }
}

function checkMode(given: unknown): "exclusive" | "shared" {
  const mode = given ?? "exclusive";
  if (mode === "exclusive" || mode === "shared") return mode;
  throw new TypeError(
    `Cannot use 'mode': it must be "exclusive" or "shared", but it is ${
      typeof mode === "string" ? JSON.stringify(mode) : describeType(mode)
    }`,
  );
}

/** Makes the error for a feature that a strategy or the Web Locks API does not offer. */
export function notSupported(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}
