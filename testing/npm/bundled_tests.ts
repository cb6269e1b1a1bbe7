/**
 * Runs tests of this project on Node and Bun, against the npm package.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { installPackages, installTogether } from "./install.ts";
import { linkedProject, PACKAGE, type Project } from "./project.ts";
import { readReports, type TestReport } from "./reports.ts";
import { KOFFI, NODE_22, type NpmRuntime, programOf } from "./runtimes.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BUNDLE = "tests.mjs";
/** The process that some of the suites start. */
const PROCESS = "testing/conformance/contender.ts";
const ESBUILD = "esbuild@0.28.2";
const CLIENTS: Readonly<Record<string, string>> = {
  "redis": "redis@6.3.1",
  "ioredis": "ioredis@6.0.0",
  "koffi": KOFFI,
  "node-zookeeper-client": "node-zookeeper-client@1.1.3",
};
/** All packages that bundled tests need. */
export const BUNDLE_PACKAGES: readonly string[] = [ESBUILD, ...Object.values(CLIENTS)];

/** Modules of tests that depend on Deno, or on JSR, and those that take their places. */
const REPLACED = {
  [`${ROOT}testing/runtime/file_locks.ts`]: `${ROOT}testing/npm/runtime/file_locks.ts`,
  [`${ROOT}testing/runtime/tests.ts`]: `${ROOT}testing/npm/runtime/tests.ts`,
  [`${ROOT}testing/runtime/sockets.ts`]: `${ROOT}testing/npm/runtime/sockets.ts`,
  "@std/assert": `${ROOT}testing/assert/assert.ts`,
  "@std/async": `${ROOT}testing/assert/async.ts`,
};

/** A test file, bundled in a project. */
export interface BundledTests extends AsyncDisposable {
  /** Runs it; the variables name its servers. */
  run(runtime: NpmRuntime, env: Readonly<Record<string, string>>): Promise<TestReport[]>;
}

/**
 * Bundles a test file.
 *
 * @param more Packages that it imports besides the clients, by their names.
 */
export async function bundleTests(
  file: string,
  more: Readonly<Record<string, string>> = {},
): Promise<BundledTests> {
  const clients = await Promise.all(
    Object.entries(CLIENTS).map(async ([name, spec]) =>
      [name, `${await installPackages([spec])}/${name}`] as const
    ),
  );
  const installed = [...clients, ...await installTogether(more)];
  const project = await linkedProject(Object.fromEntries(installed));
  await bundle(project, file, installed.map(([name]) => name));
  return {
    async run(runtime, env) {
      const command = [await programOf(runtime), `${project.folder}/${BUNDLE}`];
      const { success, output } = await project.run(command, env);
      if (!success) throw new Error(`${file} failed on ${runtime.name}: ${output.slice(-4_000)}`);
      return readReports(output);
    },
    [Symbol.asyncDispose]: () => project[Symbol.asyncDispose](),
  };
}

async function bundle(
  project: Project,
  file: string,
  external: readonly string[],
): Promise<void> {
  const options = {
    esbuild: `${await installPackages([ESBUILD])}/esbuild/lib/main.js`,
    bundles: [
      { entry: ROOT + file, out: `${project.folder}/${BUNDLE}`, isMain: false },
      { entry: ROOT + PROCESS, out: `${project.folder}/contender.mjs`, isMain: true },
    ],
    external,
    packaged: packagedSources(),
    replaced: REPLACED,
  };
  const script = await project.copy("bundle.mjs");
  const command = [await programOf(NODE_22), script, JSON.stringify(options)];
  const { success, output } = await project.run(command);
  if (!success) throw new Error(`Cannot bundle ${file}: ${output}`);
}

/** The names of the entries, by the paths of their sources. */
function packagedSources(): Record<string, string> {
  const { exports } = JSON.parse(readFileSync(`${ROOT}deno.json`, "utf8")) as {
    exports: Record<string, string>;
  };
  const entries = Object.entries(exports).map(([entry, path]) =>
    [ROOT + path.slice("./".length), PACKAGE + entry.slice(1)] as const
  );
  // The suite opens this one directly, so that each test has an instance of its own.
  return { ...Object.fromEntries(entries), [`${ROOT}memory/memory_lock.ts`]: PACKAGE };
}
