/**
 * Lua scripts as the server gets them: parts included, constants inlined, comments left out. (A local
 * that functions use costs the server about 0.1 µs per call, so a hundred names would not be free.)
 *
 * @module
 */
import { createHash } from "node:crypto";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/** The folders that have scripts. */
export const SCRIPT_FOLDERS: readonly string[] = ["redis/protocol/scripts", "fencing/scripts"];

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const INCLUDE = /^--#include "(.+)"$/;
const CONSTANT = /^local ([A-Z][A-Z0-9_]*) = (-?\d+|'[^']*')(?: --.*)?$/;
/** A comment that fills a line, or ends it. After the latter no quote may follow: it may be a string. */
const COMMENT = /^\s*--.*$|\s--[^'"]*$/;
const STRING_OR_CONSTANT = /'(?:[^'\\]|\\.)*'|\b[A-Z][A-Z0-9_]*\b/g;

/** A line of code as the server gets it, and where it stands. */
export interface SourceLine {
  readonly text: string;
  /** The path of the file from the root of the repository. */
  readonly path: string;
  /** The number of the line in its file, from 1. */
  readonly line: number;
}

/** Lines that follow each other in a script: a whole part, or what the script has between two parts. */
export interface Block {
  readonly path: string;
  readonly lines: readonly SourceLine[];
}

/** A script: its own lines and, before the first that needs it, each part once. */
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

/** The script as the server gets it. */
export function sourceOf({ blocks }: LuaScript): string {
  return blocks.map(codeOf).join("\n");
}

/** The digest by which the server remembers a script. */
export function sha1Of(script: LuaScript): string {
  return createHash("sha1").update(sourceOf(script)).digest("hex");
}

/** The constants that a file defines, by name, each as it is written. */
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

/** The parts that a file includes, and those that they include: each once, and before its users. */
export function partsOf(path: string): string[] {
  return [...new Set(includesOf(path).flatMap((part) => [...partsOf(part), part]))];
}

/**
 * Finds a line of a script, as an error of the server counts it.
 *
 * @param place A script and a line: `ask:57`.
 * @param scripts The scripts; those of all folders unless given.
 * @returns The path, the line in it, and its code as the file has it.
 * @throws {Error} If there is no such script or line.
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

/** Puts constants where their names stand; a negative number in parentheses, as `--` is a comment. */
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
