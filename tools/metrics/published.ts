/**
 * Lists the published code: what `deno.json` publishes, without generated files.
 *
 * @module
 */
import { readFileSync, statSync } from "node:fs";
import { filesIn } from "../architecture/imports.ts";
import { isGenerated } from "../generated.ts";

/** The root of the project, as a file URL that ends in a slash. */
export const ROOT: string = new URL("../../", import.meta.url).href;

/** The text of a file, by its path from the root. */
export function read(path: string): string {
  return readFileSync(new URL(path, ROOT), "utf8");
}

/** The folders, which end in a slash, and the single modules that are published. */
export function publishedPaths(): string[] {
  const { publish } = JSON.parse(read("deno.json")) as { publish: { include: string[] } };
  return publish.include.filter((path) => path.endsWith("/") || path.endsWith(".ts"));
}

/** The files of TypeScript and Lua that are published and not generated, by their paths. */
export function publishedFiles(): string[] {
  const files = publishedPaths().flatMap((path) =>
    statSync(new URL(path, ROOT)).isDirectory() ? filesIn(path) : [path]
  );
  return files.filter((path) => /\.(?:ts|lua)$/.test(path) && !isGenerated(read(path)));
}
