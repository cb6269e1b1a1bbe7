/**
 * The tests of the snippets: one for each, on all of its runtimes at the same time.
 *
 * @module
 */
import process from "node:process";
import { documentedSnippets } from "../../tools/docs/snippets.ts";
import { userImports } from "../../tools/import_map.ts";
import { say } from "../processes/figures.ts";
import { afterAll, beforeAll, registerTest } from "../runtime/tests.ts";
import { type SourceService, startSourceService } from "./source_service.ts";
import {
  runSnippet,
  type SnippetPlace,
  type SnippetServer,
  snippetServer,
  titleOf,
} from "./snippet_runs.ts";
import { runtimesOf } from "./snippet_runtimes.ts";

/** Servers for the snippets. */
export interface SnippetServers extends AsyncDisposable, Omit<SnippetPlace, "origin"> {}

/** How the tests of a suite get their servers. */
export interface SnippetSuiteOptions {
  /** Starts servers for one run of one snippet; not given where the snippets need none. */
  readonly start?: () => Promise<SnippetServers>;
  /** Why the snippets cannot run here. */
  readonly skip?: string | undefined;
}

/** It is on JSR only. */
const DENO_REDIS = "@db/redis";

const isSoak = Boolean(process.env["HOLDFAST_SOAK"]);

/** Registers a test for each of the snippets that need one kind of server. */
export async function snippetSuite(
  server: SnippetServer,
  { start, skip }: SnippetSuiteOptions,
): Promise<void> {
  const snippets = documentedSnippets().filter((snippet) => snippetServer(snippet) === server);
  const imports = await userImports();
  const counts = new Map<string, { ran: number; of: number }>();
  let service: SourceService | undefined;
  beforeAll(async () => void (service = await startSourceService()));
  for (const snippet of snippets) {
    const all = runtimesOf(snippet, isSoak);
    const skips = await Promise.all(all.map((runtime) => skip ?? runtime.skip()));
    const runtimes = all.filter((_runtime, index) => skips[index] === undefined);
    const note = skips.find((reason) => reason !== undefined);
    const standIn = snippet.code.includes(DENO_REDIS) && imports[DENO_REDIS]?.startsWith("file:");
    for (const { name } of all) {
      counts.set(name, { ran: 0, of: (counts.get(name)?.of ?? 0) + 1 });
    }
    registerTest(
      `${titleOf(snippet)}: the snippet runs and ends on ${all.map(({ name }) => name).join()}` +
        (note === undefined ? "" : ` [skipped: ${note}]`) +
        (standIn ? " [with a stand-in for deno-redis: JSR is out of reach]" : ""),
      async () => {
        // A failed one must not leave the others to the next test.
        const runs = await Promise.allSettled(runtimes.map(async (runtime) => {
          await using own = await start?.();
          await runSnippet(snippet, runtime, { ...own, origin: service!.origin });
          counts.get(runtime.name)!.ran++;
        }));
        for (const run of runs) if (run.status === "rejected") throw run.reason;
      },
      { isSkipped: runtimes.length === 0 },
    );
  }
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    for (const [name, { ran, of }] of counts) {
      say(`snippets (${server}) on ${name}: ${ran} of ${of}`);
    }
  });
}
