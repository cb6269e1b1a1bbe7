/**
 * Prints as JSON, into the file that its last argument names, the awaited timers in the folders that its
 * first arguments name. A test, since Deno offers its parser only to tests.
 *
 * @module
 */
import { findAwaitedTimers } from "./find.ts";
import { readSource, type Source } from "./source.ts";

const IS_CODE = /\.(?:ts|tsx|js|mjs)$/;

function sourcesIn(folder: string): Source[] {
  return Array.from(Deno.readDirSync(folder)).flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    if (isDirectory) return sourcesIn(path);
    return IS_CODE.test(name) ? [readSource(path, Deno.readTextFileSync(path))] : [];
  });
}

Deno.test("awaited timers", () => {
  const found = findAwaitedTimers(Deno.args.slice(0, -1).flatMap(sourcesIn));
  Deno.writeTextFileSync(Deno.args.at(-1)!, JSON.stringify(found));
});
