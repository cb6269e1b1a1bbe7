/**
 * Takes the place of `testing/runtime/tests.ts` when behaviours are listed: prints the name of each test, and
 * runs none.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- the output is read by another process

/** Tests are only listed. */
export const LISTS_ONLY = true;

/** The mark of a line with a name. */
export const MARK = "test: ";

/** Prints the name of a test. */
export function registerTest(name: string): void {
  console.log(MARK + name);
}

/** Does nothing. */
export function beforeAll(): void {}

/** Does nothing. */
export function afterAll(): void {}
