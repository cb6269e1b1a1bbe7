/**
 * `deno task check`: type-checks all code and the snippets in the documentation.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { importMapArgs } from "./import_map.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const CODE = ["."];
const DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/"];

async function deno(...args: string[]): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), { args, cwd: ROOT }).spawn();
  return (await child.status).code;
}

/** All Markdown files in the given files and folders. */
function markdown(paths: string[]): string[] {
  return paths.flatMap((path) => {
    if (!path.endsWith("/")) return [path];
    const entries = [...Deno.readDirSync(`${ROOT}${path}`)];
    const folders = entries.filter((entry) => entry.isDirectory).map(({ name }) =>
      `${path}${name}/`
    );
    const files = entries.filter(({ name }) => name.endsWith(".md")).map(({ name }) => path + name);
    return [...files, ...markdown(folders)];
  });
}

/** Runs both checks; returns the exit code. */
async function main(): Promise<number> {
  const imports = await importMapArgs();
  const code = await deno("check", "-q", ...imports, ...CODE);
  const documents = await deno("check", "-q", "--doc-only", ...imports, ...markdown(DOCUMENTS));
  return code || documents;
}

if (import.meta.main) Deno.exit(await main());
