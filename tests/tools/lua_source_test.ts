/**
 * What the server gets of the Lua sources, and how its line numbers lead back.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { createHash } from "node:crypto";
import * as fencing from "../../fencing/scripts.ts";
import * as redis from "../../redis/protocol/scripts.ts";
import { generate } from "../../tools/embed_lua.ts";
import {
  codeOf,
  constantsOf,
  locate,
  partsOf,
  readScripts,
  SCRIPT_FOLDERS,
  sourceOf,
} from "../../tools/lua_source.ts";

const EMBEDDED: Record<string, { readonly sha1: string; readonly source: string }> = {
  ...redis,
  ...fencing,
};
const SCRIPTS = SCRIPT_FOLDERS.flatMap(readScripts);

function linesOf(path: string): string[] {
  return Deno.readTextFileSync(new URL(`../../${path}`, import.meta.url)).split("\n");
}

/** A line with the values of the constants of these files. */
function withValues(text: string, paths: readonly string[]): string {
  for (const [name, value] of paths.flatMap((path) => [...constantsOf(path)])) {
    const inserted = value.startsWith("-") ? `(${value})` : value;
    text = text.replace(new RegExp(`(?<!['\\w])${name}(?!\\w)`, "g"), inserted);
  }
  return text;
}

for (const script of SCRIPTS) {
  const { name } = script;

  Deno.test(`the embedded ${name} script is its source, and has its digest`, () => {
    const { sha1, source } = EMBEDDED[name.toUpperCase()]!;
    assertEquals(source, sourceOf(script));
    assertEquals(sha1, createHash("sha1").update(source).digest("hex"));
  });

  Deno.test(`locate() finds each line of the ${name} script in its file`, () => {
    for (const [index, sent] of EMBEDDED[name.toUpperCase()]!.source.split("\n").entries()) {
      const { path, line, text } = locate(`${name}:${index + 1}`);
      assertEquals(linesOf(path)[line - 1]!.trim(), text);
      const [code] = withValues(text, [...partsOf(path), path]).split(/ --[^'"]*$/);
      assertEquals(code, sent, `${path}:${line}`);
    }
  });
}

Deno.test("the embedded module has each part once", () => {
  for (const folder of SCRIPT_FOLDERS) {
    const text = generate(folder).replaceAll("\\\\", "\\");
    const parts = new Map(
      readScripts(folder).flatMap(({ path, blocks }) =>
        blocks.filter((block) => block.path !== path).map((block) => [block.path, codeOf(block)])
      ),
    );
    for (const [path, code] of parts) assertEquals(text.split(code).length, 2, path);
  }
});

Deno.test("locate() says what it cannot find", () => {
  assertThrows(() => locate("ask"), Error, "name a script and a line");
  assertThrows(() => locate("ask:x"), Error, "name a script and a line");
  assertThrows(() => locate("nobody:1"), Error, "the scripts are ask, leave,");
  assertThrows(() => locate("renew:0"), Error, "it has lines 1 to");
  assertThrows(() => locate("renew:10000"), Error, "it has lines 1 to");
});
