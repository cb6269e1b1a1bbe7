/**
 * Reads the imports of the project's files.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import type { ImportGraph } from "./check.ts";

const ROOT = new URL("../../", import.meta.url);
const PACKAGE = "@holdfast/lock";

/** Block comments, which contain the examples of the documentation, and comments on their own lines. */
const COMMENTS = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;
/** `import … from "x"`, `export … from "x"`, `import "x"`, `import("x")` and `typeof import("x")`. */
const IMPORTS = /\bfrom\s*"([^"]+)"|(?<!")\bimport\s*\(?\s*"([^"]+)"/g;

/** The specifiers in a module's imports, including imports of types. */
export function specifiersIn(source: string): string[] {
  const code = source.replaceAll(COMMENTS, "");
  return [...code.matchAll(IMPORTS)].map(([, from, bare]) => (from ?? bare)!);
}

/** The imports between the project's files. */
export function readImports(): ImportGraph {
  const { exports } = JSON.parse(read("deno.json")) as { exports: Record<string, string> };
  const files = filesIn("").filter((file) => file.endsWith(".ts"));
  return new Map(files.map((file) => {
    const targets = specifiersIn(read(file)).map((name) => targetOf(name, file, exports));
    return [file, [...new Set(targets.filter((target) => target !== undefined))]];
  }));
}

/** The imported file; undefined for other packages, and for text that only looks like an import. */
function targetOf(
  specifier: string,
  file: string,
  exports: Readonly<Record<string, string>>,
): string | undefined {
  const target = specifier.startsWith(PACKAGE)
    ? exports[`.${specifier.slice(PACKAGE.length)}`]?.slice("./".length)
    : specifier.startsWith(".")
    ? posix.join(posix.dirname(file), specifier)
    : undefined;
  return target !== undefined && existsSync(new URL(target, ROOT)) ? target : undefined;
}

/** All files below a folder, by their paths from the root. */
export function filesIn(folder: string): string[] {
  return readdirSync(new URL(folder || "./", ROOT), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}${entry.name}`;
    if (/^\.|^node_modules$|^coverage$/.test(entry.name)) return [];
    return entry.isDirectory() ? filesIn(`${path}/`) : [path];
  });
}

function read(file: string): string {
  return readFileSync(new URL(file, ROOT), "utf8");
}
