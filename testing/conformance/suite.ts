/**
 * Registers the conformance suite: the same behaviours for every strategy and client.
 *
 * @module
 */
import process from "node:process";
import { say } from "../processes/figures.ts";
import { afterAll, beforeAll, LISTS_ONLY, registerTest } from "../runtime/tests.ts";
import { argumentsSuite } from "./bad_arguments.ts";
import { boundedWaitsSuite } from "./bounded_waits.ts";
import { crashSuite } from "./crash.ts";
import { disposalSuite } from "./disposal.ts";
import { exclusionSuite } from "./exclusion.ts";
import { fencingSuite } from "./fencing.ts";
import { countLine } from "./counts.ts";
import type { Harness } from "./harness.ts";
import { listSuite } from "./list.ts";
import { lossSuite } from "./loss.ts";
import { modesSuite } from "./modes.ts";
import { nestingSuite } from "./nesting.ts";
import { releaseSuite } from "./release.ts";
import { requestSuite } from "./request.ts";
import { setsSuite } from "./sets.ts";
import { stealSuite } from "./steal.ts";
import { tracingSuite } from "./tracing.ts";
import { waitingSuite } from "./waiting.ts";
import { webLocksSuite } from "./web_locks.ts";

const ALL = [
  exclusionSuite,
  releaseSuite,
  waitingSuite,
  boundedWaitsSuite,
  lossSuite,
  fencingSuite,
  requestSuite,
  webLocksSuite,
  listSuite,
  modesSuite,
  nestingSuite,
  stealSuite,
  setsSuite,
  tracingSuite,
  disposalSuite,
  crashSuite,
  argumentsSuite,
] as const;

/** Registers all behaviours for a strategy under test. */
export function conformance(harness: Harness): void {
  register(harness, ALL);
}

/** Registers how locks are released and waited for: for another connection of a tested strategy. */
export function conformanceOfWaiting(harness: Harness): void {
  register(harness, [releaseSuite, waitingSuite]);
}

function register(harness: Harness, suites: readonly ((harness: Harness) => void)[]): void {
  if (harness.skip !== undefined && !LISTS_ONLY) {
    const name = `${harness.name}: conformance suite [skipped: ${harness.skip}]`;
    registerTest(name, () => Promise.resolve(), { isSkipped: true });
    return;
  }
  beforeAll(() => harness.start());
  afterAll(() => harness.stop());
  const counts = { of: 0, passed: 0 };
  for (const suite of suites) suite({ ...harness, counts });
  afterAll(() => Promise.resolve(say(countLine(harness.name, runtimeName(), counts))));
}

function runtimeName(): string {
  const { deno, bun, node } = process.versions;
  return deno !== undefined ? `Deno ${deno}` : bun !== undefined ? `Bun ${bun}` : `Node ${node}`;
}
