/**
 * Prepares Lua scripts for the server: includes parts, inlines constants, removes comments. (Constants are
 * inlined because a local that functions use costs the server about 0.1 µs per call.)
 *
 * @module
 */
import { createHash } from "node:crypto";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/** The folders with scripts. */
export const SCRIPT_FOLDERS: readonly string[] = [
  "redis/protocol/scripts",
  "fencing/scripts",
];

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const INCLUDE = /^--#include "(.+)"$/;
const CONSTANT = /^local ([A-Z][A-Z0-9_]*) = (-?\d+|'[^']*')(?: --.*)?$/;
/** A whole-line comment, or one at the end of a line. The latter has no quote: `--` could be in a string. */
const COMMENT = /^\s*--.*$|\s--[^'"]*$/;
const STRING_OR_CONSTANT = /'(?:[^'\\]|\\.)*'|\b[A-Z][A-Z0-9_]*\b/g;

/** A line of code as sent to the server, with its place in the sources. */
export interface SourceLine {
  readonly text: string;
  /** The path of the file from the root of the repository. */
  readonly path: string;
  /** The number of the line in its file, from 1. */
  readonly line: number;
}

/** Consecutive lines of a script: a whole part, or the script's own lines between two parts. */
export interface Block {
  readonly path: string;
  readonly lines: readonly SourceLine[];
}

/** A script: its own lines, and each part once, before the first line that needs it. */
export interface LuaScript {
  /** The name of its file without the extension. */
  readonly name: string;
  readonly path: string;
  readonly blocks: readonly Block[];
}

/** All scripts of a folder, by name. */
export function readScripts(folder: string): LuaScript[] {
  const names = [...Deno.readDirSync(join(ROOT, folder))].map(({ name }) => name);
  return names.filter((name) => name.endsWith(".lua")).sort().map((name) => {
    const path = `${folder}/${name}`;
    return { name: name.replace(/\.lua$/, ""), path, blocks: readBlocks(path) };
  });
}

/** The code of a block. */
export function codeOf({ lines }: Block): string {
  return lines.map(({ text }) => text).join("\n");
}

/** The script as sent to the server. */
export function sourceOf({ blocks }: LuaScript): string {
  return blocks.map(codeOf).join("\n");
}

/** The SHA-1 digest by which the server caches a script. */
export function sha1Of(script: LuaScript): string {
  return createHash("sha1").update(sourceOf(script)).digest("hex");
}

/** The constants that a file defines: their source texts by name. */
export function constantsOf(path: string): Map<string, string> {
  const constants = new Map<string, string>();
  for (const line of linesOf(path)) {
    const [, name, value] = CONSTANT.exec(line) ?? [];
    if (name !== undefined && value !== undefined) constants.set(name, value);
  }
  return constants;
}

/** The parts that a file names in its includes. */
export function includesOf(path: string): string[] {
  return linesOf(path).map((line) => includedBy(path, line)).filter((part) => part !== undefined);
}

/** The parts that a file includes, directly or not: each once, and before the parts that use it. */
export function partsOf(path: string): string[] {
  return [...new Set(includesOf(path).flatMap((part) => [...partsOf(part), part]))];
}

/**
 * Finds the source of a line of a script, as numbered in an error of the server.
 *
 * @param place A script and a line: `ask:57`.
 * @param scripts The scripts to search; those of all folders by default.
 * @returns The path and line of the source, and the code of that line.
 * @throws {Error} If the script or the line does not exist.
 */
export function locate(
  place: string,
  scripts: readonly LuaScript[] = SCRIPT_FOLDERS.flatMap(readScripts),
): SourceLine {
  const [, wanted, digits] = /^(\w+):(\d+)$/.exec(place) ?? [];
  if (wanted === undefined) {
    throw new Error(`Cannot read "${place}": name a script and a line, as in ask:57`);
  }
  const script = scripts.find(({ name }) => name === wanted);
  if (script === undefined) {
    const names = scripts.map(({ name }) => name).join(", ");
    throw new Error(`Cannot find script "${wanted}": the scripts are ${names}`);
  }
  const lines = script.blocks.flatMap(({ lines }) => lines);
  const found = lines[Number(digits) - 1];
  if (found === undefined) {
    throw new Error(`Cannot find line ${digits} of "${wanted}": it has lines 1 to ${lines.length}`);
  }
  return { ...found, text: linesOf(found.path)[found.line - 1]!.trim() };
}

function readBlocks(path: string, included = new Set<string>()): Block[] {
  const values = new Map([...partsOf(path), path].flatMap((file) => [...constantsOf(file)]));
  const blocks: Block[] = [];
  let lines: SourceLine[] = [];
  const endBlock = () => {
    if (lines.length > 0) blocks.push({ path, lines });
    lines = [];
  };
  for (const [index, line] of linesOf(path).entries()) {
    const part = includedBy(path, line);
    if (part !== undefined) {
      endBlock();
      if (!included.has(part)) blocks.push(...readBlocks(part, included));
      continue;
    }
    if (CONSTANT.test(line)) continue;
    const text = inline(line.replace(COMMENT, "").trim(), values);
    if (text !== "") lines.push({ text, path, line: index + 1 });
  }
  endBlock();
  included.add(path);
  return blocks;
}

/** Replaces names of constants by their values; negative ones in parentheses, as `--` starts a comment. */
function inline(code: string, values: ReadonlyMap<string, string>): string {
  return code.replace(STRING_OR_CONSTANT, (word) => {
    const value = values.get(word);
    return value?.startsWith("-") ? `(${value})` : value ?? word;
  });
}

function includedBy(path: string, line: string): string | undefined {
  const part = INCLUDE.exec(line)?.[1];
  return part === undefined ? undefined : normalize(join(dirname(path), part));
}

function linesOf(path: string): string[] {
  return Deno.readTextFileSync(join(ROOT, path)).split("\n");
}
