/**
 * Prints as JSON, into the file that its last argument names, the awaited timers in the folders that its
 * first arguments name. A test, since Deno offers its parser only to tests.
 *
 * @module
 */
import { filesIn } from "../architecture/imports.ts";
import { findAwaitedTimers } from "./find.ts";
import { readSource } from "./source.ts";

const IS_CODE = /\.(?:ts|tsx|js|mjs)$/;

Deno.test("awaited timers", () => {
  const files = Deno.args.slice(0, -1).flatMap((folder) => filesIn(`${folder}/`));
  const sources = files.filter((path) => IS_CODE.test(path))
    .map((path) => readSource(path, Deno.readTextFileSync(path)));
  Deno.writeTextFileSync(Deno.args.at(-1)!, JSON.stringify(findAwaitedTimers(sources)));
});
