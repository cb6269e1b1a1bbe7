/**
 * Checks of single arguments, and their error messages. The options of calls are checked in
 * `call_options.ts`, a strategy's own options in its folder. Every check runs before any I/O.
 *
 * @module
 */
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

/** Checks an option that may be left out. */
export function checkOptional(option: string, value: unknown, type: "boolean" | "function"): void {
  if (value !== undefined && typeof value !== type) {
    throw new TypeError(
      `Cannot use '${option}': it must be a ${type}, but it is ${describeType(value)}`,
    );
  }
}

/** Makes the error for a feature that a strategy or the Web Locks API does not offer. */
export function notSupported(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}
