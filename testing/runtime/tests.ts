/**
 * The port to the test runner, through which the conformance suite registers its tests. Besides this
 * module, only `sockets.ts`, `clock.ts` and `file_locks.ts` depend on a runtime.
 *
 * @module
 */

/** Options of a test. */
export interface TestOptions {
  /** Whether the test is listed but does not run. */
  readonly isSkipped?: boolean;
}

/** Whether tests are only listed: then it does not matter what this machine lacks. */
export const LISTS_ONLY: boolean = false;

/** Registers a test. It fails if it throws, or if it leaves a timer, a socket or a process behind. */
export function registerTest(
  name: string,
  fn: () => Promise<void>,
  { isSkipped = false }: TestOptions = {},
): void {
  Deno.test({ name, fn, ignore: isSkipped });
}

/** Runs once before the tests of the file. */
export function beforeAll(fn: () => Promise<void>): void {
  Deno.test.beforeAll(fn);
}

/** Runs once after the tests of the file. */
export function afterAll(fn: () => Promise<void>): void {
  Deno.test.afterAll(fn);
}
