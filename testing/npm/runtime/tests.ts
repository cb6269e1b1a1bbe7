/**
 * The port to the test runner on Node and Bun: takes the place of `testing/runtime/tests.ts` in bundled
 * tests. Prints a line of JSON for each test.
 *
 * @module
 */
import process from "node:process";
import type { TestOptions } from "../../runtime/tests.ts";
import { END, type TestReport } from "../reports.ts";

/** These run. */
export const LISTS_ONLY = false;

const KEEP_ALIVE_MS = 60_000;

type Step = () => Promise<void>;

const before: Step[] = [];
const after: Step[] = [];
const tests: { readonly name: string; readonly fn: Step }[] = [];
// All tests are registered when the modules have been evaluated.
setImmediate(() => void run());

/** Registers a test. */
export function registerTest(name: string, fn: Step, { isSkipped }: TestOptions = {}): void {
  if (!isSkipped) tests.push({ name, fn });
}

/** Runs once before the tests. */
export function beforeAll(fn: Step): void {
  before.push(fn);
}

/** Runs once after the tests. */
export function afterAll(fn: Step): void {
  after.push(fn);
}

/** Runs all tests. If one of them leaves a socket or a timer, the process does not end. */
async function run(): Promise<void> {
  const keepAlive = setInterval(() => {}, KEEP_ALIVE_MS); // some waits do not keep a process alive
  for (const step of before) await step();
  for (const { name, fn } of tests) report({ name, error: await errorOf(fn) });
  for (const step of after) await step();
  clearInterval(keepAlive);
  report({ name: END, error: null });
}

async function errorOf(fn: Step): Promise<string | null> {
  try {
    await fn();
    return null;
  } catch (error) {
    return error instanceof Error ? error.stack ?? error.message : String(error);
  }
}

function report(line: TestReport): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
