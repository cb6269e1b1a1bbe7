/**
 * The comments of all that the entries export have an example, the errors and the units.
 */
import { assert, assertEquals } from "@std/assert";
import {
  callablesOf,
  entries,
  isCode,
  readApi,
  readDocumentation,
  valuesOf,
} from "../../tools/docs/api.ts";
import { withoutErrors, withoutExample, withoutUnit } from "../../tools/docs/rules.ts";

const api = readApi();

Deno.test("every exported function and class has an example", () => {
  assert(api.filter(isCode).length >= 25, "functions and classes are missing");
  assertEquals(withoutExample(api), []);
});

Deno.test("every entry has a comment about the whole module, and JSR gets the README", () => {
  const documentation = Object.entries(readDocumentation(entries()));
  assert(documentation.length >= 16, "entries are missing");
  const silent = documentation.filter(([, { module_doc }]) => !module_doc?.doc);
  assertEquals(silent.map(([url]) => url), []);
  const { publish } = JSON.parse(Deno.readTextFileSync("deno.json"));
  assert(publish.include.includes("README.md"));
  assert(/^```(?:js|ts)/m.test(Deno.readTextFileSync("README.md")), "an example");
});

Deno.test("every exported function and method that throws says which errors", () => {
  assert(api.flatMap(callablesOf).length >= 100, "functions and methods are missing");
  assertEquals(withoutErrors(api), []);
});

Deno.test("every exported duration says its unit", () => {
  const durations = api.flatMap(valuesOf).filter(({ title }) => /M[sS]$/.test(title));
  assert(durations.length >= 20, "durations are missing");
  assertEquals(withoutUnit(api), []);
});

Deno.test("the rules for comments find what is missing", async () => {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(
    file,
    `
/** A default. */
export const DEFAULT_WAIT_MS = 1;
/** Has {@linkcode Options.waitMs} and so a unit. */
export const DEFAULT_OTHER_MS = 1;
/** Options. */
export interface Options {
  /** The wait in ms. */
  waitMs: number;
  /** How long. */
  timeout: number;
}
/** An interface. */
export interface Base {
  /**
   * Does it.
   *
   * @throws {TypeError} If it cannot.
   */
  run(): void;
}
/** Another. */
export interface Derived extends Base {
  /** Does more. */
  more(): void;
}
/**
 * A class.
 *
 * @example Usage
 * \`\`\`ts
 * new A(1);
 * \`\`\`
 */
export class A {
  /** Makes it. @param ttlMs The time. */
  constructor(ttlMs: number) {
    checkIt(ttlMs);
  }
  /** See {@linkcode Derived.run}. */
  run(): void {
    throw new TypeError("no");
  }
  /** See {@linkcode Derived.more}. */
  more(): void {
    this.#check();
  }
  #check(): void {}
}
/** Has no braces, and no block of code. @example \`checkIt()\` @throws sometimes */
export function checkIt(_value: unknown): void {
  throw new TypeError("no");
}
/** Does not throw. */
export function calm(): void {
  // throw
}
`,
  );
  const planted = readApi([file]);
  const names = (lines: string[]) => lines.map((line) => line.split(": ").slice(1).join(": "));
  assertEquals(names(withoutExample(planted)).toSorted(), ["calm", "checkIt"]);
  assertEquals(names(withoutErrors(planted)).toSorted(), ["A.more()", "checkIt()", "new A()"]);
  assertEquals(names(withoutUnit(planted)).toSorted(), [
    "A: ttlMs",
    "DEFAULT_WAIT_MS",
    "Options.timeout",
  ]);
  assert(withoutExample(planted).every((line) => /\.ts:\d+: /.test(line)));
  await Deno.remove(file);
});
