/**
 * Replaces the functions of `@std/assert` that the tests use on machines without access to JSR.
 *
 * @module
 */
import nodeAssert from "node:assert/strict";

/** A class of errors. */
export type ErrorClass<E extends Error> = abstract new (...args: never[]) => E;

/** Fails unless the expression is truthy. */
export function assert(expr: unknown, msg?: string): asserts expr {
  nodeAssert.ok(expr, msg!);
}

/** Fails unless both values are deeply equal. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.deepEqual(actual, expected, msg!);
}

/** Fails unless the text matches. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  nodeAssert.match(actual, expected, msg!);
}

/** Fails unless the first text contains the second. */
export const assertStringIncludes = comparison<string>("to include", (a, b) => a.includes(b));
/** Fails unless the first value is greater. */
export const assertGreater = comparison<number | bigint>(">", (a, b) => a > b);
/** Fails unless the first value is greater or equal. */
export const assertGreaterOrEqual = comparison<number | bigint>(">=", (a, b) => a >= b);
/** Fails unless the first value is less. */
export const assertLess = comparison<number | bigint>("<", (a, b) => a < b);
/** Fails unless the first value is less or equal. */
export const assertLessOrEqual = comparison<number | bigint>("<=", (a, b) => a <= b);

function comparison<T extends string | number | bigint>(
  relation: string,
  holds: (actual: T, expected: T) => boolean,
) {
  return (actual: T, expected: T, msg = `Expected ${actual} ${relation} ${expected}`): void =>
    nodeAssert.ok(holds(actual, expected), msg);
}

/** Fails unless the value is an instance of the class. */
export function assertInstanceOf<T extends abstract new (...args: never[]) => unknown>(
  actual: unknown,
  expectedType: T,
  msg = `Expected an instance of ${expectedType.name}, got ${actual}`,
): asserts actual is InstanceType<T> {
  nodeAssert.ok(actual instanceof expectedType, msg);
}

type Expected<E extends Error> = [errorClass: ErrorClass<E>, msgIncludes?: string, msg?: string];

/** Fails unless the function throws; returns the error. */
export function assertThrows(fn: () => unknown): unknown;
/** Fails unless the function throws an error of the class, with the text in its message. */
export function assertThrows<E extends Error>(fn: () => unknown, ...expected: Expected<E>): E;
export function assertThrows(fn: () => unknown, ...expected: Partial<Expected<Error>>): unknown {
  try {
    fn();
  } catch (error) {
    return checked(error, ...expected);
  }
  nodeAssert.fail(expected[2] ?? "Expected the function to throw");
}

/** Fails unless the promise rejects; resolves with its rejection. */
export function assertRejects(fn: () => PromiseLike<unknown>): Promise<unknown>;
/** Fails unless the promise rejects with an error of the class, with the text in its message. */
export function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  ...expected: Expected<E>
): Promise<E>;
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  ...expected: Partial<Expected<Error>>
): Promise<unknown> {
  const promise = fn();
  try {
    await promise;
  } catch (error) {
    return checked(error, ...expected);
  }
  nodeAssert.fail(expected[2] ?? "Expected the function to reject");
}

function checked(error: unknown, type?: ErrorClass<Error>, msgIncludes = "", msg?: string) {
  if (type === undefined) return error;
  assertInstanceOf(error, type, msg);
  assertStringIncludes(error.message, msgIncludes, msg);
  return error;
}
