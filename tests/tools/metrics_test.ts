import { assert, assertEquals } from "@std/assert";
import { TimeHeap } from "../../core/time/time_heap.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import { FileLock } from "../../file/mod.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { countCycle } from "../../tools/metrics/call_counter.ts";
import { findForwarders } from "../../tools/metrics/forwarders.ts";
import { framesOfCommands } from "../../tools/metrics/frames.ts";
import { countLines, luaComments } from "../../tools/metrics/lines.ts";
import { readModule } from "../../tools/metrics/module.ts";
import { publishedFiles } from "../../tools/metrics/published.ts";
import { countModules } from "../../tools/metrics/static.ts";

/** Types and functions that the examples use. */
const OTHERS = `
  export interface Options { readonly limitMs: number }
  export class Inner {
    readonly options: Options = { limitMs: 1 };
    readonly #sizes = new Map<string, number>();
    get size(): number { return this.#sizes.size; }
    sizeOf(key: string): number | undefined { return this.#sizes.get(key); }
    run(name: string, times = 1): string { return name.repeat(times) + "!"; }
  }
  export interface Outer extends Pick<Inner, "run"> { readonly inner: Inner }
  export function run(name: string, times = 1): string { return name.repeat(times) + "?"; }
`;

/** The names of the forwarders in a text. */
function forwardersIn(text: string): string[] {
  const head = `import { Inner, type Outer, run } from "./others.ts";\n`;
  const modules = [readModule("core/others.ts", OTHERS), readModule("core/a.ts", head + text)];
  return findForwarders(modules).map(({ name }) => name);
}

/** Whether a member of a class with the field `#inner` is a forwarder. */
function isForwarder(member: string): boolean {
  const own = "other(name: string): string { return name + 1; }";
  return forwardersIn(`class A { readonly #inner = new Inner(); ${own} ${member} }`).length > 0;
}

Deno.test("findForwarders() finds members that only pass their arguments on", () => {
  for (
    const member of [
      "run(name: string) { return this.#inner.run(name); }",
      "async run(name: string) { await this.#inner.run(name); }",
      "run(name: string): void { void this.#inner?.run(name)!; }",
      "run(times: number, name: string) { return this.#inner.run(name, times); }",
      "run(name: string, times?: number) { return this.#inner.run(name, times ?? 2); }",
      "run(name: string) { return this.#inner.run(name, 2); }",
      "run(...args: [string]) { return this.#inner.run(...args); }",
      "run({ name }: { name: string }) { return this.#inner.run(name); }",
      "run = (name: string) => this.#inner.run(name);",
      "run(name: string) { return this.other(name); }",
      "run(name: string) { return run(name); }",
      "get size() { return this.#inner.size; }",
      "get limitMs() { return this.#inner.options.limitMs; }",
      "static run(outer: Outer, name: string) { return outer.run(name); }",
      "static run(outer: Outer, name: string) { return outer.inner.run(name); }",
    ]
  ) assertEquals(isForwarder(member), true, member);
});

Deno.test("findForwarders() skips members that do more, and calls of others", () => {
  for (
    const member of [
      "constructor(name: string) { run(name); }",
      "set name(name: string) { run(name); }",
      "get inner() { return this.#inner; }",
      "run(name: string) { return this.#inner.run(name + 1); }",
      "run(name: string) { return this.#inner.run(name) + 1; }",
      "run(name: string) { return this.#inner.run({ name }); }",
      "run(name: string) { return this.#inner.run(name, this.times); }",
      "run(name: string) { return this.#inner.run(() => name); }",
      "run(name: string) { this.#inner.run(name); this.#inner.run(name); }",
      "run(name: string) { if (name) this.#inner.run(name); }",
      "run(name: string) { return this.#inner.missing(name); }",
      "readonly #map = new Map(); get(name: string) { return this.#map.get(name); }",
      "now() { return performance.now(); }",
      "run(call: (name: string) => void, name: string) { call(name); }",
      "static run(names: string[], name: string) { return names.includes(name); }",
    ]
  ) assertEquals(isForwarder(member), false, member);
});

Deno.test("findForwarders() finds functions, and members of object literals", () => {
  const text = `
    import { other } from "npm:other";
    export function first(name: string) { return run(name); }
    const second = (name: string) => first(name);
    export function open(outer: Outer) {
      const inner = new Inner();
      return { third: (name: string) => outer.run(name), get fourth() { return inner.size; } };
    }
    export function fifth(name: string) { return other(name); }
    [1].map((name) => run(name));
  `;
  assertEquals(forwardersIn(text), ["first", "second", "third", "fourth"]);
});

Deno.test("countModules() counts lines, named types, and what is too long", () => {
  const long = Array.from(Array(61), (_, i) => `  f(${i});`).join("\n");
  const text = `/** A comment. */
import type { A } from "./a.ts"; // behind code

/* of
   lines */
interface B { a: A } /* c */
export type C = B | "// no comment";
enum D { E }
const F = class {};
export abstract class G extends F {}
function h(f: (i: number) => void) {
${long}
}
`;
  const { typeScriptLines, types, functions, longFunctions, longFiles } = countModules([
    readModule("core/a.ts", text),
    readModule("core/b.ts", "\n// Nothing.\n" + "\n".repeat(600) + "f();\n"),
  ]);
  assertEquals(typeScriptLines, 6 + 63 + 1);
  assertEquals(types, { interface: 1, alias: 1, enum: 1, class: 1 });
  assertEquals(functions, 1);
  assertEquals(longFunctions, ["core/a.ts:11 h: 63 lines"]);
  assertEquals(longFiles, ["core/b.ts: 603 lines"]);
});

Deno.test("countLines() counts a long line as several", () => {
  assertEquals(countLines("x".repeat(100), []), 1);
  assertEquals(countLines("x".repeat(101) + "\n" + "x".repeat(201), []), 5);
  assertEquals(countLines(`  ${"x".repeat(95)} // ${"y".repeat(50)}`, [[98, 151]]), 1);
});

Deno.test("luaComments() finds comments, but none in strings", () => {
  const text = `-- A comment.
local a = '--' -- behind code
--[[ of
lines ]] local b = [[--]]
local c = "\\"--"

--#include "part.lua"
`;
  assertEquals(luaComments(text).map(([start, end]) => text.slice(start, end)), [
    "-- A comment.",
    "-- behind code",
    "--[[ of\nlines ]]",
    `--#include "part.lua"`,
  ]);
  assertEquals(countLines(text, luaComments(text)), 3);
});

Deno.test("publishedFiles() lists code of TypeScript and Lua that is written by hand", () => {
  const files = publishedFiles();
  for (const path of ["mod.ts", "redis/redis_lock.ts", "redis/protocol/scripts/ask.lua"]) {
    assertEquals(files.includes(path), true, path);
  }
  const others = files.filter((path) => /^(?:testing|tests|tools|bench|examples)\//.test(path));
  assertEquals(others, []);
  assertEquals(files.filter((path) => path.endsWith("scripts.ts")), []);
});

Deno.test("countCycle() counts calls, functions, files and objects of a cycle, and no set-up", async () => {
  const run = async (cycles: number) => {
    new TimeHeap();
    await promiseTry(() => {});
    for (let i = 0; i < cycles; i++) {
      new TimeHeap();
      await promiseTry(() => {});
      await promiseTry(() => {});
    }
  };
  // The fields of the heap are set by a function of V8.
  assertEquals(await countCycle(run, 10), { calls: 3, functions: 2, files: 2, objects: 1 });
});

Deno.test("framesOfCommands() lists the frames from the user's call to the file system", async () => {
  const dir = await makeTempDirectory();
  {
    await using lock = new FileLock({ dir });
    const commands = await framesOfCommands(async () => {
      await (await lock.acquire("name")).release();
    });
    const [first, ...others] = commands.map((frames) => frames.map(({ file }) => file));
    assertEquals(first!.at(0), "file/file_lock.ts");
    assertEquals(first!.at(-1), "file/system/deno.ts");
    assert(others.length > 0, "a command");
  }
  await Deno.remove(dir, { recursive: true });
});
