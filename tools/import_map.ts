/**
 * Lets the tests and the type check run without access to JSR: makes an import map from `deno.json` in
 * which the standard library is replaced by the stand-ins in `testing/assert/`.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import process from "node:process";
import { runCommand } from "../testing/servers/command.ts";

const ROOT = new URL("../", import.meta.url);
const PROBE_BOUND_MS = 10_000;
/** The environment variable by which the test runner passes on whether JSR answers: `1` or `0`. */
export const JSR_VARIABLE = "HOLDFAST_JSR_ANSWERS";
const PROBED = "@std/assert";
const STAND_INS: Readonly<Record<string, string>> = {
  "@std/assert": "./testing/assert/assert.ts",
  "@std/async": "./testing/assert/async.ts",
  // For examples in comments. "@db/redis" has no stand-in, so its tests are skipped.
  "jsr:@db/redis": "./testing/assert/deno_redis.ts",
  "https://deno.land/x/redis/mod.ts": "./testing/assert/deno_redis.ts",
};
/** The snippets of the pages import it by this name. */
const SNIPPET_STAND_INS: Readonly<Record<string, string>> = {
  "@db/redis": "./testing/assert/deno_redis.ts",
};

interface Configuration {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly imports: Readonly<Record<string, string>>;
}

/**
 * The arguments that `deno test` or `deno check` needs on this machine: none if JSR answers, otherwise
 * an import map, which is small enough for a `data:` URL.
 *
 * @param root The root of the project, or of a copy; its URL ends in a slash.
 */
export async function importMapArgs(root: URL = ROOT): Promise<string[]> {
  const { imports } = readConfiguration(root);
  if (await isWithinReach(imports[PROBED])) return [];
  // An import map replaces the imports of `deno.json`, so it repeats them.
  const map = JSON.stringify({ imports: absolute({ ...imports, ...STAND_INS }, root) });
  return [`--import-map=data:application/json,${encodeURIComponent(map)}`];
}

/** The `imports` in the `deno.json` of a user who has this package, and all that its pages name. */
export async function userImports(): Promise<Record<string, string>> {
  const { name, exports, imports } = readConfiguration(ROOT);
  const own = Object.entries(exports).map(([entry, path]) => [name + entry.slice(1), path]);
  const standIns = await isWithinReach(imports[PROBED]) ? {} : SNIPPET_STAND_INS;
  return absolute({ ...imports, ...Object.fromEntries(own), ...standIns }, ROOT);
}

function readConfiguration(root: URL): Configuration {
  return JSON.parse(readFileSync(new URL("deno.json", root), "utf8")) as Configuration;
}

function absolute(imports: Configuration["imports"], root: URL): Record<string, string> {
  return Object.fromEntries(
    Object.entries(imports).map((
      [name, target],
    ) => [name, target.startsWith(".") ? new URL(target, root).href : target]),
  );
}

/** To ask takes a process, and all that the process loads: a run asks once. */
async function isWithinReach(specifier = ""): Promise<boolean> {
  const known = process.env[JSR_VARIABLE];
  if (known !== undefined) return known === "1";
  const probe = ["info", "--no-config", "--no-lock", "--json", specifier];
  const { success, output } = await runCommand([process.execPath, ...probe], PROBE_BOUND_MS);
  return success && !output.includes('"error":');
}
