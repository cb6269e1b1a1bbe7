/**
 * Counts which lines of the published code the tests reach, by `deno test --coverage`.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import process from "node:process";
import { pathToFileURL } from "node:url";

/** The folder of the counts, relative to the root; git ignores it. */
const FOLDER = "coverage";

/** The arguments of `deno test` that write the counts; none unless they are wanted. */
export function coverageArgs(isCovered: boolean): string[] {
  return isCovered ? [`--coverage=${FOLDER}`, "--coverage-raw-data-only"] : [];
}

/** Removes the counts of earlier runs. */
export async function removeCoverage(root: string): Promise<void> {
  await rm(`${root}${FOLDER}`, { recursive: true, force: true });
}

/** Prints a table of the published files. */
export async function printCoverage(root: string): Promise<void> {
  const args = ["coverage", `--include=${publishedPattern(root)}`, FOLDER];
  await once(spawn(process.execPath, args, { cwd: root, stdio: "inherit" }), "close");
}

/** Matches the URLs of the modules that `deno.json` publishes. */
function publishedPattern(root: string): string {
  const { publish } = JSON.parse(readFileSync(`${root}deno.json`, "utf8")) as {
    publish: { include: string[] };
  };
  const paths = publish.include.filter((path) => /\/$|\.ts$/.test(path));
  const escape = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return `^${escape(pathToFileURL(root).href)}(?:${paths.map(escape).join("|")})`;
}
