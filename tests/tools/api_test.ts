import { assert, assertEquals, assertThrows } from "@std/assert";
import { apiText, differences } from "../../tools/api.ts";
import { typeText } from "../../tools/docs/types.ts";

const BEFORE = `
/** Options. */
export interface Options<T extends string = "a"> {
  /** The wait in ms. */
  readonly waitMs?: number | undefined;
  /** A method. */
  stop(...reasons: readonly T[]): Promise<void>;
  "not-a-word": { a: 1; b(): [string, T] };
}
/** A class. */
export class Box implements AsyncDisposable {
  /** A value. */
  static readonly size: number = 1;
  #secret = 1;
  private hidden = 2;
  constructor(name: string, options: Options = {} as Options) {
    void [name, options, this.#secret, this.hidden];
  }
  /** Disposes. */
  async [Symbol.asyncDispose](): Promise<void> {}
  /** A method. */
  put(value: string): string;
  put(value: 1): 1;
  put(value: unknown): unknown {
    return value;
  }
  /** Text. */
  get text(): string {
    return "";
  }
}
/** One. */
export function take(value: string): asserts value is "a";
/** Two. */
export function take(value: number): void;
export function take(_value: unknown): void {}
/** A limit. */
export const LIMIT_MS = 5;
/** Either. */
export type Either = (() => void) | (new (a: bigint) => Box);
`;

const FROZEN = `class Box implements AsyncDisposable
  new (name: string, options?: Options)
  [Symbol.asyncDispose](): Promise<void>
  put(value: string): string
  put(value: 1): 1
  static readonly size: number
  get text(): string
type Either = (() => void) | (new (a: bigint) => Box)
const LIMIT_MS: 5
interface Options<T extends string = "a">
  "not-a-word": { a: 1; b(): [string, T] }
  stop(...reasons: readonly T[]): Promise<void>
  readonly waitMs?: number | undefined
function take(value: string): asserts value is "a"
function take(value: number): void`;

/** The API of one module, made of this text. */
async function apiOf(source: string): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, source);
    return apiText({ "./planted": file });
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("apiText() writes a line for each symbol and member that users can reach, sorted", async () => {
  const text = await apiOf(BEFORE);
  assertEquals(text.slice(text.indexOf("# ")), `# ./planted\n\n${FROZEN}\n`);
  assertEquals(await apiOf(BEFORE), text);
});

const CHANGES: readonly [change: string, from: string, to: string, expected: readonly string[]][] =
  [
    ["a type", "waitMs?: number | undefined", "waitMs?: number", [
      "- ./planted: Options: readonly waitMs?: number | undefined",
      "+ ./planted: Options: readonly waitMs?: number",
    ]],
    ["a parameter", "take(value: number)", "take(value: number, limit?: number)", [
      "- ./planted: function take(value: number): void",
      "+ ./planted: function take(value: number, limit?: number): void",
    ]],
    ["a default's type", '<T extends string = "a">', '<T extends string = "b">', [
      '- ./planted: interface Options<T extends string = "a">',
      '+ ./planted: interface Options<T extends string = "b">',
    ]],
    ["a missing symbol", "export const LIMIT_MS", "const LIMIT_MS", [
      "- ./planted: const LIMIT_MS: 5",
    ]],
    ["a contract", " implements AsyncDisposable", "", [
      "- ./planted: class Box implements AsyncDisposable",
      "+ ./planted: class Box",
    ]],
    ["a getter", "get text(): string", "get text2(): string", [
      "- ./planted: Box: get text(): string",
      "+ ./planted: Box: get text2(): string",
    ]],
  ];

for (const [change, from, to, expected] of CHANGES) {
  Deno.test(`differences() finds ${change} that has changed`, async () => {
    assert(BEFORE.includes(from));
    assertEquals(
      differences(await apiOf(BEFORE), await apiOf(BEFORE.replace(from, to))),
      expected,
    );
  });
}

Deno.test("differences() finds nothing when only comments and the order have changed", async () => {
  const [, options = "", rest = ""] = /^([^]*?\n\}\n)([^]*)$/.exec(BEFORE) ?? [];
  const moved = (rest + options).replace("A limit", "Another limit");
  assertEquals(differences(await apiOf(BEFORE), await apiOf(moved)), []);
});

Deno.test("typeText() refuses a type of an unknown kind, and a missing one", () => {
  assertThrows(() => typeText({ kind: "mystery" }), Error, 'kind "mystery"');
  assertThrows(() => typeText(undefined), Error, "does not name");
  assertEquals(typeText({ kind: "mystery", repr: "A[B]" }), "A[B]");
});

Deno.test("deno task api explains its options and rejects others", async () => {
  const script = new URL("../../tools/api.ts", import.meta.url).pathname;
  const run = async (arg: string) => {
    const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", script, arg] });
    return (await command.output()).code;
  };
  assertEquals([await run("--help"), await run("--wrong")], [0, 2]);
});
