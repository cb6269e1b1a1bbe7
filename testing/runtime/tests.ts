/**
 * The port to the test runner: how a suite registers its tests. Together with `sockets.ts` and
 * `clock.ts`, the only modules of the suite that name a runtime.
 *
 * @module
 */

/** How a test is registered. */
export interface TestOptions {
  /** The test is listed, but does not run. */
  readonly isSkipped?: boolean;
}

/** Registers a test. It fails when it throws, and when it leaves a timer, a socket or a process. */
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
