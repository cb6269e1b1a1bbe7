/**
 * `deno task check`: type-checks all code, then the examples in comments and the snippets of the pages, each
 * with its own imports only.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { fileURLToPath } from "node:url";
import { checkExamples } from "../testing/docs/examples.ts";
import { checkSnippets, typedSnippets } from "../testing/docs/snippet_types.ts";
import { publishedExamples } from "./docs/examples.ts";
import { documentedSnippets } from "./docs/snippets.ts";
import { importMapArgs } from "./import_map.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** Runs the checks; returns the exit code. */
async function main(): Promise<number> {
  const args = ["check", "-q", ...await importMapArgs(), "."];
  const child = new Deno.Command(Deno.execPath(), { args, cwd: ROOT }).spawn();
  const { success, code } = await child.status;
  if (!success) return code;
  try {
    await checkExamples(publishedExamples());
    await checkSnippets(typedSnippets(documentedSnippets()));
    return 0;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

if (import.meta.main) Deno.exit(await main());
