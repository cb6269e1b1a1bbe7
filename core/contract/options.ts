/**
 * Tables of options: a row per option says what it must be, and its default. All checks run before any I/O. Owner ids
 * are made here, too, beside the rule of those that callers choose.
 *
 * @module
 */
import { hintFor, hintForBare, SEVERAL_NAMES } from "./option_hints.ts";

/** Longest name of a lock, in UTF-16 code units. */
const MAX_NAME_LENGTH = 1_000;
/** Longest owner id that a caller may pass in, in UTF-16 code units. */
export const MAX_OWNER_ID_LENGTH = 500;
/** Longest label, in UTF-16 code units. */
export const MAX_LABEL_LENGTH = 100;
/** Longest duration in ms: the longest delay of a timer (24.8 days). */
export const MAX_DURATION_MS = 2 ** 31 - 1;
/** The greatest `limit` of shared holders. */
const MAX_LIMIT = 10_000;
/** Shortest TTL in ms: the allowance for drift would use up most of a shorter one. */
export const MIN_TTL_MS = 10;

/** What one option must be. */
export interface Rule<Default = unknown> {
  readonly default: Default;
  /** Whether the option must not be left out: then `undefined` is checked, too. */
  readonly isRequired?: boolean;
  /** Throws if a value must not be used. `what` names its place, for the message: `"'ttlMs'"`. */
  check(what: string, value: unknown): void;
}

export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Rule<NonNullable<Options[Name]> | undefined>;
};

/**
 * The options after {@linkcode readTable}: those that are required or have a default are set. `Extract`
 * keeps TypeScript from copying the marks of optional members.
 */
export type ReadOptions<Options, Table> = {
  readonly [Name in Extract<keyof Options, keyof Table>]: Table[Name] extends Rule<infer Default>
    ? undefined extends Default
      ? Options[Name] | (object extends Pick<Options, Name> ? undefined : never)
    : NonNullable<Options[Name]>
    : never;
};

/**
 * Reads options into an object of its own: each is read once, so a later change, or a getter that would throw the
 * next time, has no effect. Fills in the defaults, copies lists, and binds callbacks to the options. Members of
 * `Object.prototype` are not options. An unknown option is an error, unless its value is `undefined`.
 *
 * @param where What takes the options, for the message: `"acquire()"`.
 * @throws {TypeError|RangeError} If an option is bad.
 */
export function readTable<Options extends object, Table extends OptionTable<Options>>(
  where: string,
  options: Options,
  table: Table,
): ReadOptions<Options, Table> {
  const isBare = typeof options !== "object" || options === null || Array.isArray(options) ||
    options instanceof AbortSignal || options instanceof Promise;
  if (isBare) {
    const is = describe(options);
    const hint = hintForBare(is, Object.keys(table));
    throw new TypeError(
      `Cannot use the options: they must be an object, but they are ${is}${hint}`,
    );
  }
  refuseUnknown(where, options, table);
  let rows = tables.get(table);
  if (rows === undefined) tables.set(table, rows = rowsOf(table));
  const read: Record<string, unknown> = { ...rows.defaults };
  for (const name of rows.names) { // in each call: so it makes no call for what is left out
    const rule = table[name as keyof Options];
    const isForeign = Object.hasOwn(Object.prototype, name) && !Object.hasOwn(options, name);
    const value = isForeign ? undefined : options[name as keyof Options] as unknown;
    if (value === undefined) {
      if (rule.isRequired) rule.check(`'${name}'`, value);
      continue;
    }
    const own = Array.isArray(value) ? [...value] : value;
    rule.check(`'${name}'`, own);
    read[name] = typeof own === "function" ? own.bind(options) : own;
  }
  return read as ReadOptions<Options, Table>;
}

/** The names and defaults of each table. To copy the defaults costs less than to set them one by one. */
const tables = new WeakMap<object, ReturnType<typeof rowsOf>>();

function rowsOf(table: Readonly<Record<string, Rule>>) {
  const names = Object.keys(table);
  const defaults: Record<string, unknown> = {};
  for (const name of names) defaults[name] = table[name]!.default;
  return { names, defaults };
}

function refuseUnknown(where: string, options: object, table: object): void {
  for (const name in options) {
    if (Object.hasOwn(table, name) || options[name as keyof typeof options] === undefined) continue;
    // Some program or package may have added members to all objects. They are not meant for us.
    if (Object.hasOwn(Object.prototype, name) && !Object.hasOwn(options, name)) continue;
    const hint = hintFor(name, Object.keys(table));
    throw new TypeError(`Cannot use '${name}': ${where} has no such option; ${hint}`);
  }
}

/** The end of the message about a bad value: `"a string"`, `"null"`. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "an array";
  if (value instanceof AbortSignal) return "an AbortSignal";
  if (value instanceof Promise) return "a promise (is an 'await' missing?)";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

export function badValue(what: string, must: string, is: string): string {
  return `Cannot use ${what}: it must be ${must}, but it is ${is}`;
}

export function required(check: Rule["check"]): Rule<undefined> {
  return { default: undefined, isRequired: true, check };
}

function checkOf(type: "boolean" | "function"): Rule["check"] {
  return (what, value) => {
    // deno-lint-ignore valid-typeof -- the names of types come from here
    if (typeof value === type) return;
    throw new TypeError(badValue(what, `a ${type}`, describe(value)));
  };
}

export function flag<Default extends boolean | undefined = undefined>(
  otherwise?: Default,
): Rule<Default> {
  return { default: otherwise as Default, check: checkOf("boolean") };
}

export function callback<Default = undefined>(otherwise?: Default): Rule<Default> {
  return { default: otherwise as Default, check: checkOf("function") };
}

export function signal(): Rule<undefined> {
  return {
    default: undefined,
    check: (what, value) => {
      if (value instanceof AbortSignal) return;
      throw new TypeError(badValue(what, "an AbortSignal", describe(value)));
    },
  };
}

export function date(): Rule<undefined> {
  return {
    default: undefined,
    check: (what, value) => {
      if (!(value instanceof Date)) throw new TypeError(badValue(what, "a Date", describe(value)));
      if (!Number.isNaN(value.getTime())) return;
      throw new RangeError(badValue(what, "a valid Date", "an invalid one"));
    },
  };
}

export function oneOf<const Value, const Default extends Value | undefined = undefined>(
  values: readonly Value[],
  otherwise?: Default,
): Rule<Default> {
  const must = values.map((value) => JSON.stringify(value)).join(" or ");
  return {
    default: otherwise as Default,
    check: (what, value) => {
      if (values.includes(value as Value)) return;
      const is = typeof value === "string"
        ? JSON.stringify(value)
        : typeof value === "number"
        ? String(value)
        : describe(value);
      throw new TypeError(badValue(what, must, is));
    },
  };
}

function whole<Default>(unit: string, min: number, max: number, otherwise: Default): Rule<Default> {
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
  return {
    default: otherwise,
    check: (what, value) => {
      if (typeof value !== "number") {
        throw new TypeError(badValue(what, `a number${unit}`, describe(value)));
      }
      if (Number.isInteger(value) && value >= min && value <= max) return;
      throw new RangeError(badValue(what, `a whole number${unit} ${range}`, String(value)));
    },
  };
}

/** A duration in ms: a whole number from `min`, 1 by default, to {@linkcode MAX_DURATION_MS}. */
export function duration<Default extends number | undefined = undefined>(
  { min = 1, otherwise }: { readonly min?: number; readonly otherwise?: Default } = {},
): Rule<Default> {
  return whole(" of ms", min, MAX_DURATION_MS, otherwise as Default);
}

export function ttl<Default extends number | undefined = undefined>(
  otherwise?: Default,
): Rule<Default> {
  return whole(" of ms", MIN_TTL_MS, MAX_DURATION_MS, otherwise as Default);
}

/** A number of things: a whole number from 0. */
export function count<Default extends number | undefined = undefined>(
  otherwise?: Default,
): Rule<Default> {
  return whole("", 0, Number.MAX_SAFE_INTEGER, otherwise as Default);
}

export function holderLimit(): Rule<undefined> {
  return whole("", 1, MAX_LIMIT, undefined);
}

/**
 * Well-formed text of some length in UTF-16 code units; messages never show it, as it may be a secret. With
 * `isOneLine` it has no control characters: it is shown to people and stored as one line.
 */
export function text<Default extends string | undefined = undefined>(
  { min = 0, max = MAX_NAME_LENGTH, isOneLine = false }: {
    readonly min?: number;
    readonly max?: number;
    readonly isOneLine?: boolean;
  } = {},
  otherwise?: Default,
): Rule<Default> {
  const must = `a string of ${min} to ${max} characters`;
  return {
    default: otherwise as Default,
    check: (what, value) => {
      if (typeof value !== "string") {
        throw new TypeError(badValue(what, must, describe(value)));
      }
      if (value.length < min || value.length > max) {
        throw new RangeError(badValue(what, must, `one of ${value.length}`));
      }
      if (!value.isWellFormed()) {
        throw new TypeError(
          badValue(what, "well-formed Unicode", "a string with a lone surrogate"),
        );
      }
      if (isOneLine && /\p{Cc}/u.test(value)) {
        const is = "a string with a line break or another control character";
        throw new RangeError(badValue(what, "one line of text", is));
      }
    },
  };
}

export function label<Default extends string | undefined = undefined>(
  otherwise?: Default,
): Rule<Default> {
  return text({ min: 1, max: MAX_LABEL_LENGTH, isOneLine: true }, otherwise);
}

const OWNER_TEXT = text({ min: 1, max: MAX_OWNER_ID_LENGTH, isOneLine: true });

/** The owner id that stands for all holders of a shared lock. */
export const SHARED_OWNER_ID = "holdfast:shared";

/** The rule of an owner id that a caller chooses. */
export const OWNER_ID: Rule<undefined> = {
  default: undefined,
  check: (what, value) => {
    OWNER_TEXT.check(what, value);
    if (value !== SHARED_OWNER_ID) return;
    throw new RangeError(
      badValue(what, "another one", `${JSON.stringify(value)}, which is reserved`),
    );
  },
};

const MADE_OWNER_ID = /^(.*)\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/s;

/** Makes an owner id, of one lease: `label/UUID`, unique and unguessable (122 random bits). */
export function makeOwnerId(label: string): string {
  return `${label}/${crypto.randomUUID()}`;
}

/** The label in an owner id made by {@linkcode makeOwnerId}; `undefined` if there is none. */
export function labelOf(ownerId: string): string | undefined {
  return MADE_OWNER_ID.exec(ownerId)?.[1] || undefined;
}

const NAME = text({ min: 1 });

export function checkName(name: unknown): asserts name is string {
  if (Array.isArray(name)) {
    throw new TypeError(`Cannot use an array as the lock name: ${SEVERAL_NAMES}`);
  }
  NAME.check("the lock name", name);
}

/** Makes the error for a feature that a strategy or the Web Locks API does not offer. */
export function notSupported(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}
