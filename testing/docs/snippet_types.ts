/**
 * Checks that the snippets of the pages are valid TypeScript, too, except for the types of parameters, which
 * plain JavaScript cannot state.
 *
 * @module
 */
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import type { Snippet } from "../../tools/docs/snippets.ts";
import { userImports } from "../../tools/import_map.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { runCommand } from "../servers/command.ts";
import { LONG_BOUND_MS } from "../time.ts";

const ROOT = new URL("../../", import.meta.url);
const CHECK_BOUND_MS = LONG_BOUND_MS;
/** Packages whose types are a package of their own, which Deno finds by this comment only. */
const TYPED_APART = /^(?=import .* from "(koa|express)";$)/gm;
/** Stands for the address of the sources. */
const PUBLIC_ADDRESS = "https://example.com/holdfast/";
/** The start of an error. */
const ERROR = /^(?=TS\d+ \[ERROR\]: )/m;
/** A parameter without a type. */
const UNTYPED_PARAMETER = /^TS(?:7006|7031) /;
/**
 * These hand on what a framework does not type: TypeScript needs type arguments, as in
 * `new Hono<HonoLockEnv>()`. The examples in the comments of these entries have them, and are checked.
 */
const UNTYPED_FRAMEWORK = /"@holdfast\/lock\/http\/(?!koa")/;

/** The snippets that are valid TypeScript. The type check does not know `Bun`. */
export function typedSnippets(snippets: readonly Snippet[]): Snippet[] {
  return snippets.filter(({ code, targets }) => {
    return !UNTYPED_FRAMEWORK.test(code) && targets.some(({ kind }) => kind !== "bun");
  });
}

/**
 * Type-checks snippets.
 *
 * @throws {Error} If one has an error; its message names the place.
 */
export async function checkSnippets(snippets: readonly Snippet[]): Promise<void> {
  const folder = await makeTempDirectory();
  try {
    await writeConfiguration(folder);
    const paths = await Promise.all(snippets.map((snippet) => writeSnippet(folder, snippet)));
    const command = [process.execPath, "check", "-q", ...paths];
    const options = { cwd: folder, env: { NO_COLOR: "1" } };
    const { success, output } = await runCommand(command, CHECK_BOUND_MS, options);
    const errors = output.split(ERROR).filter((error) => !UNTYPED_PARAMETER.test(error));
    if (success || errors.length === 0) return;
    const text = errors.join("");
    throw new Error(text.replaceAll(`file://${folder}/`, "").replaceAll(/\.\d+\.ts\b/g, ""));
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function writeConfiguration(folder: string): Promise<void> {
  const { compilerOptions } = JSON.parse(await readFile(new URL("deno.json", ROOT), "utf8"));
  const configuration = { imports: await userImports(), compilerOptions };
  await writeFile(`${folder}/deno.json`, JSON.stringify(configuration));
  await copyFile(new URL("deno.lock", ROOT), `${folder}/deno.lock`);
}

/** Writes a script whose lines have the numbers that they have on the page. */
async function writeSnippet(folder: string, { file, line, code }: Snippet): Promise<string> {
  const path = `${folder}/${file}.${line}.ts`;
  await mkdir(dirname(path), { recursive: true });
  const typed = code.replaceAll(TYPED_APART, '/* @ts-types="npm:@types/$1" */ ')
    .replaceAll(PUBLIC_ADDRESS, ROOT.href);
  await writeFile(path, "\n".repeat(line) + typed);
  return path;
}
