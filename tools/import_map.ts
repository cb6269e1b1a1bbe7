/**
 * Lets the tests and the type check run without access to JSR: makes an import map from `deno.json` in
 * which the standard library is replaced by the stand-ins in `testing/assert/`.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import process from "node:process";
import { runCommand } from "../testing/servers/command.ts";

const PROBE_BOUND_MS = 10_000;
const PROBED = "@std/assert";
const STAND_INS: Readonly<Record<string, string>> = {
  "@std/assert": "./testing/assert/assert.ts",
  "@std/async": "./testing/assert/async.ts",
  // Types for the snippets of the README. "@db/redis" has no stand-in, so its tests are skipped.
  "jsr:@db/redis": "./testing/assert/deno_redis.ts",
  "https://deno.land/x/redis/mod.ts": "./testing/assert/deno_redis.ts",
};

interface Configuration {
  readonly imports: Readonly<Record<string, string>>;
}

/**
 * The arguments that `deno test` or `deno check` needs on this machine: none if JSR answers, otherwise
 * an import map, which is small enough for a `data:` URL.
 */
export async function importMapArgs(): Promise<string[]> {
  const root = new URL("../", import.meta.url);
  const { imports } = JSON.parse(readFileSync(new URL("deno.json", root), "utf8")) as Configuration;
  if (await isWithinReach(imports[PROBED])) return [];
  const map = JSON.stringify({ imports: offlineImports(imports, root) });
  return [`--import-map=data:application/json,${encodeURIComponent(map)}`];
}

/** An import map replaces the imports of `deno.json`, so it repeats them. */
function offlineImports(imports: Configuration["imports"], root: URL): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ ...imports, ...STAND_INS }).map((
      [name, target],
    ) => [name, target.startsWith(".") ? new URL(target, root).href : target]),
  );
}

async function isWithinReach(specifier = ""): Promise<boolean> {
  const probe = ["info", "--no-config", "--no-lock", "--json", specifier];
  const { success, output } = await runCommand([process.execPath, ...probe], PROBE_BOUND_MS);
  return success && !output.includes('"error":');
}
