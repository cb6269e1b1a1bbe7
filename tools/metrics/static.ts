/**
 * The counts that need no run: lines, named types, forwarders, long functions and files.
 *
 * @module
 */
import { scanWith } from "../syntax/scan.ts";
import { findForwarders, type Forwarder } from "./forwarders.ts";
import { countLines, luaComments } from "./lines.ts";
import type { Module } from "./module.ts";
import { publishedFiles, read } from "./published.ts";

/** The greatest number of lines of a function, and of a file, that is not long. */
export const LIMITS = { functionLines: 60, fileLines: 600 } as const;

/** The counts. */
export interface StaticCounts {
  readonly files: number;
  readonly typeScriptLines: number;
  readonly luaLines: number;
  readonly functions: number;
  /** Named types by their kinds. */
  readonly types: Readonly<Record<string, number>>;
  readonly forwarders: readonly Forwarder[];
  /** Functions and files over the limits, with their places. */
  readonly longFunctions: readonly string[];
  readonly longFiles: readonly string[];
}

/** Counts all published code. */
export async function countPublished(): Promise<StaticCounts> {
  const modules = await scanWith<Module[]>("tools/metrics/scan.ts", []);
  const lua = publishedFiles().filter((path) => path.endsWith(".lua")).map(read);
  return { ...countModules(modules), ...countLua(lua), files: modules.length + lua.length };
}

function countLua(texts: readonly string[]): Pick<StaticCounts, "luaLines"> {
  return { luaLines: sum(texts.map((text) => countLines(text, luaComments(text)))) };
}

/** Counts modules. */
export function countModules(modules: readonly Module[]): Omit<StaticCounts, "files" | "luaLines"> {
  const types: Record<string, number> = {};
  for (const { kind } of modules.flatMap((module) => module.types)) {
    types[kind] = (types[kind] ?? 0) + 1;
  }
  return {
    typeScriptLines: sum(modules.map(({ lines }) => lines)),
    functions: sum(modules.map(({ functions }) => functions.length)),
    types,
    forwarders: findForwarders(modules),
    longFunctions: modules.flatMap(({ path, functions }) =>
      functions.filter(({ lines }) => lines > LIMITS.functionLines)
        .map(({ name, line, lines }) => `${path}:${line} ${name}: ${lines} lines`)
    ),
    longFiles: modules.filter(({ length }) => length > LIMITS.fileLines)
      .map(({ path, length }) => `${path}: ${length} lines`),
  };
}

/** The sum of numbers. */
export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
