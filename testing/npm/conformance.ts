/**
 * Registers the conformance suite of a strategy against the npm package, a test per runtime.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { countLine } from "../conformance/counts.ts";
import { say } from "../processes/figures.ts";
import { afterAll, beforeAll, LISTS_ONLY, registerTest } from "../runtime/tests.ts";
import { sourceVariable } from "../servers/find.ts";
import { BUNDLE_PACKAGES, type BundledTests, bundleTests } from "./bundled_tests.ts";
import { installSkip } from "./install.ts";
import { strategyOf } from "./reports.ts";
import { type NpmRuntime, OLDEST_RUNTIMES, RUNTIMES, runtimeSkip } from "./runtimes.ts";

/** The least number of behaviours of a strategy: fewer mean that the suite has not run. */
const LEAST = 60;

/** A server for the suite. */
export interface SuiteServer extends AsyncDisposable {
  readonly kind: "redis" | "zookeeper";
  readonly address: string;
}

/** A suite, and its runtimes. */
export interface SuiteRuns {
  /** The name of a file in `tests/conformance/`, without its ending. */
  readonly suite: string;
  /** The runtimes of the test task; the soak runs all of them. */
  readonly runtimes: readonly NpmRuntime[];
  startServer?(): Promise<SuiteServer>;
  /** Why the suite cannot run. */
  readonly skip?: string | undefined;
}

/** Registers the tests. */
export async function npmConformance(runs: SuiteRuns): Promise<void> {
  const { suite, runtimes, startServer } = runs;
  const packages = LISTS_ONLY ? [] : BUNDLE_PACKAGES;
  const installSkips = await Promise.all(packages.map((spec) => installSkip([spec])));
  const skip = [runs.skip, ...installSkips].find((reason) => reason !== undefined);
  const chosen = process.env["HOLDFAST_SOAK"] ? [...OLDEST_RUNTIMES, ...RUNTIMES] : runtimes;
  let bundled: BundledTests | undefined;
  if (skip === undefined && chosen.length > 0) {
    beforeAll(async () => void (bundled = await bundleTests(`tests/conformance/${suite}.ts`)));
    afterAll(async () => await bundled?.[Symbol.asyncDispose]());
  }
  for (const runtime of chosen) {
    const reason = LISTS_ONLY ? undefined : skip ?? await runtimeSkip(runtime);
    registerTest(
      `the npm package passes the suite ${suite} on ${runtime.name}` +
        (reason === undefined ? "" : ` [skipped: ${reason}]`),
      async () => {
        await using server = await startServer?.() ?? null;
        const reports = await bundled!.run(runtime, variablesOf(server));
        const failed = reports.filter(({ error }) => error !== null);
        const counts = { passed: reports.length - failed.length, of: reports.length };
        say(countLine(strategyOf(reports), runtime.name, counts));
        assertEquals(failed, []);
        assert(reports.length >= LEAST, `only ${reports.length} behaviours`);
      },
      { isSkipped: reason !== undefined },
    );
  }
}

/**
 * The server as the suite looks for it: one that is shared. The suite has its short form also in the soak:
 * the number of rounds says nothing about a runtime.
 */
function variablesOf(server: SuiteServer | null): Record<string, string> {
  const short = { HOLDFAST_SOAK: "" };
  if (server === null) return short;
  return { ...short, [sourceVariable(server.kind)]: JSON.stringify({ shared: server.address }) };
}
