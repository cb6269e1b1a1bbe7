/**
 * Compares the embedded scripts with the Lua sources, and maps line numbers back to the sources.
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

/** The constants that a file can use: a pattern for each name, and the value as it is sent. */
function sentConstants(path: string): [name: RegExp, sent: string][] {
  return [...partsOf(path), path].flatMap((file) => [...constantsOf(file)]).map(([name, value]) => [
    new RegExp(`(?<!['\\w])${name}(?!\\w)`, "g"),
    value.startsWith("-") ? `(${value})` : value,
  ]);
}

for (const script of SCRIPTS) {
  const { name } = script;

  Deno.test(`scripts.ts has the source and the SHA-1 digest of ${name}.lua`, () => {
    const { sha1, source } = EMBEDDED[name.toUpperCase()]!;
    assertEquals(source, sourceOf(script));
    assertEquals(sha1, createHash("sha1").update(source).digest("hex"));
  });

  Deno.test(`locate() finds each line of ${name}.lua in its file`, () => {
    const byPath = new Map<string, ReturnType<typeof sentConstants>>();
    const constants = (path: string) => {
      if (!byPath.has(path)) byPath.set(path, sentConstants(path));
      return byPath.get(path)!;
    };
    for (const [index, sent] of EMBEDDED[name.toUpperCase()]!.source.split("\n").entries()) {
      const { path, line, text } = locate(`${name}:${index + 1}`, SCRIPTS);
      assertEquals(linesOf(path)[line - 1]!.trim(), text);
      const [code] = constants(path).reduce(
        (code, [name, value]) => code.replace(name, () => value),
        text,
      )
        .split(/ --[^'"]*$/);
      assertEquals(code, sent, `${path}:${line}`);
    }
  });
}

Deno.test("generate() writes each part once", () => {
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

Deno.test("locate() throws for an unknown script or line and names the known ones", () => {
  assertThrows(() => locate("ask"), Error, "name a script and a line");
  assertThrows(() => locate("ask:x"), Error, "name a script and a line");
  assertThrows(() => locate("nobody:1"), Error, "the scripts are ask, leave,");
  assertThrows(() => locate("renew:0"), Error, "it has lines 1 to");
  assertThrows(() => locate("renew:10000"), Error, "it has lines 1 to");
});
