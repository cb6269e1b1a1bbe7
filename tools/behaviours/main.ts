/**
 * `deno task behaviours`: writes `docs/behaviours.md`. With `--check` it compares instead, and
 * fails if the page has changed.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import process from "node:process";
import { behavioursPage } from "./page.ts";
import { listSuites } from "./registrations.ts";

const PAGE = new URL("../../docs/behaviours.md", import.meta.url);
const USAGE = `Usage: deno task behaviours [--check]

Writes docs/behaviours.md. With --check, compares it with the tests and writes nothing.`;

/** The page as it should be. */
export async function currentPage(): Promise<string> {
  return behavioursPage(await listSuites());
}

/** The page as it is committed. */
export async function committedPage(): Promise<string> {
  return await Deno.readTextFile(PAGE).catch(() => "");
}

async function main(args: readonly string[]): Promise<number> {
  const unknown = args.find((arg) => arg !== "--check");
  if (unknown !== undefined) {
    console.log(unknown === "--help" ? USAGE : `Unknown option "${unknown}"\n\n${USAGE}`);
    return unknown === "--help" ? 0 : 2;
  }
  const page = await currentPage();
  if (!args.includes("--check")) await Deno.writeTextFile(PAGE, page);
  if (await committedPage() === page) return 0;
  console.error(
    "docs/behaviours.md is old: run deno task behaviours, and read the diff",
  );
  return 1;
}

if (import.meta.main) process.exit(await main(Deno.args));
