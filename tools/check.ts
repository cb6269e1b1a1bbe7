/**
 * `deno task check`: type-checks all code. The examples in comments and on pages are checked by
 * `tests/docs/`.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { importMapArgs } from "./import_map.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** Runs the check; returns the exit code. */
async function main(): Promise<number> {
  const args = ["check", "-q", ...await importMapArgs(), "."];
  const child = new Deno.Command(Deno.execPath(), { args, cwd: ROOT }).spawn();
  return (await child.status).code;
}

if (import.meta.main) Deno.exit(await main());
