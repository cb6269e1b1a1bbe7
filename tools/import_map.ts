/**
 * Lets the tests and the type check run where JSR is out of reach: derives an import map from
 * `deno.json` in which the standard library's names point to the stand-ins in `testing/assert/`.
 *
 * @module
 */

import { type Lifeline, openLifeline } from "../testing/servers/guarded_process.ts";

const PROBE_BOUND_MS = 10_000;
const PROBED = "@std/assert";
const STAND_INS: Readonly<Record<string, string>> = {
  "@std/assert": "./testing/assert/assert.ts",
  "@std/async": "./testing/assert/async.ts",
  // For the snippets of the README; "@db/redis" itself stays out, so that its tests are skipped.
  "jsr:@db/redis": "./testing/assert/deno_redis.ts",
  "https://deno.land/x/redis/mod.ts": "./testing/assert/deno_redis.ts",
};

interface Configuration {
  readonly imports: Readonly<Record<string, string>>;
}

const lifelines: Lifeline[] = [];

/**
 * The arguments that `deno test` or `deno check` needs here: none where JSR answers, else an import
 * map in a temporary file; call `removeImportMaps()` in the end.
 */
export async function importMapArgs(): Promise<string[]> {
  const root = new URL("../", import.meta.url);
  const text = await Deno.readTextFile(new URL("deno.json", root));
  const { imports } = JSON.parse(text) as Configuration;
  if (await isWithinReach(imports[PROBED])) return [];
  const file = await Deno.makeTempFile({ prefix: "holdfast-imports-", suffix: ".json" });
  lifelines.push(openLifeline({ remove: file }));
  await Deno.writeTextFile(file, JSON.stringify({ imports: offlineImports(imports, root) }));
  return [`--import-map=${file}`];
}

/** Removes the files that `importMapArgs()` has made, which also go when this process ends. */
export async function removeImportMaps(): Promise<void> {
  for (const lifeline of lifelines.splice(0)) await lifeline[Symbol.asyncDispose]();
}

/** An import map replaces the imports of `deno.json`; the package's own name keeps its meaning. */
function offlineImports(imports: Configuration["imports"], root: URL): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, target] of Object.entries({ ...imports, ...STAND_INS })) {
    const isFile = target.startsWith(".");
    result[name] = isFile ? new URL(target, root).href : target;
  }
  return result;
}

async function isWithinReach(specifier: string | undefined): Promise<boolean> {
  if (specifier === undefined) return true;
  const probe = new Deno.Command(Deno.execPath(), {
    args: ["info", "--no-config", "--no-lock", "--json", specifier],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    signal: AbortSignal.timeout(PROBE_BOUND_MS),
  });
  const { success, stdout } = await probe.output();
  if (!success) return false;
  const info = JSON.parse(new TextDecoder().decode(stdout)) as { modules: { error?: string }[] };
  return info.modules.length > 0 && info.modules.every(({ error }) => error === undefined);
}
