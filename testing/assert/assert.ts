/**
 * Stands in for the few functions of `@std/assert` that the tests use, where JSR is out of reach.
 *
 * @module
 */

import nodeAssert, { AssertionError } from "node:assert/strict";

/** A class of errors. */
export type ErrorClass<E extends Error> = abstract new (...args: never[]) => E;

/** Fails always. */
export function fail(msg?: string): never {
  throw new AssertionError({ message: msg ? `Failed assertion: ${msg}` : "Failed assertion" });
}

/** Fails unless the expression is truthy. */
export function assert(expr: unknown, msg = "Expected a truthy value"): asserts expr {
  if (!expr) fail(msg);
}

/** Fails unless both are deeply equal. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.deepEqual(actual, expected, msg!);
}

/** Fails if both are deeply equal. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.notDeepEqual(actual, expected, msg!);
}

/** Fails unless both are the same value. */
export function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is T {
  nodeAssert.equal(actual, expected, msg!);
}

/** Fails if the value is null or undefined. */
export function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T> {
  if (actual === undefined || actual === null) fail(because(`Expected ${actual} to exist`, msg));
}

/** Fails unless the value is an instance of the class. */
export function assertInstanceOf<T extends abstract new (...args: never[]) => unknown>(
  actual: unknown,
  expectedType: T,
  msg?: string,
): asserts actual is InstanceType<T> {
  if (actual instanceof expectedType) return;
  fail(because(`Expected an instance of ${expectedType.name}, got ${describe(actual)}`, msg));
}

/** Fails unless the first is greater. */
export function assertGreater<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual > expected)) fail(because(`Expected ${actual} > ${expected}`, msg));
}

/** Fails unless the first is greater or equal. */
export function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual >= expected)) fail(because(`Expected ${actual} >= ${expected}`, msg));
}

/** Fails unless the first is less. */
export function assertLess<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual < expected)) fail(because(`Expected ${actual} < ${expected}`, msg));
}

/** Fails unless the first is less or equal. */
export function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual <= expected)) fail(because(`Expected ${actual} <= ${expected}`, msg));
}

/** Fails unless the text matches. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  if (!expected.test(actual)) fail(because(`Expected ${expected} in "${actual}"`, msg));
}

/** Fails unless the text contains the other. */
export function assertStringIncludes(actual: string, expected: string, msg?: string): void {
  if (!actual.includes(expected)) fail(because(`Expected "${expected}" in "${actual}"`, msg));
}

/** Fails unless the function throws; returns what it threw. */
export function assertThrows(fn: () => unknown, msg?: string): unknown;
/** Fails unless the function throws an error of the class, with the text in its message. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  errorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): E;
export function assertThrows(
  fn: () => unknown,
  ...expected: Expected
): unknown {
  try {
    fn();
  } catch (error) {
    checkError(error, expected);
    return error;
  }
  fail(because("Expected the function to throw", messageIn(expected)));
}

/** Fails unless the promise rejects; resolves with what it rejected with. */
export function assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
/** Fails unless the promise rejects with an error of the class, with the text in its message. */
export function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  errorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  ...expected: Expected
): Promise<unknown> {
  let promise: PromiseLike<unknown>;
  try {
    promise = fn();
  } catch (error) {
    fail(because(`The function threw instead of rejecting: ${error}`, messageIn(expected)));
  }
  try {
    await promise;
  } catch (error) {
    checkError(error, expected);
    return error;
  }
  fail(because("Expected the function to reject", messageIn(expected)));
}

type Expected =
  | [msg?: string | undefined]
  | [errorClass: ErrorClass<Error>, msgIncludes?: string | undefined, msg?: string | undefined];

function messageIn(expected: Expected): string | undefined {
  return typeof expected[0] === "function" ? expected[2] : expected[0];
}

function checkError(error: unknown, [errorClass, msgIncludes, msg]: Expected): void {
  if (typeof errorClass !== "function") return;
  assertInstanceOf(error, errorClass, msg);
  if (msgIncludes !== undefined) assertStringIncludes(error.message, msgIncludes, msg);
}

function because(problem: string, msg: string | undefined): string {
  return msg ? `${problem}: ${msg}` : problem;
}

function describe(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  return Deno.inspect(value, { depth: 1 });
}
