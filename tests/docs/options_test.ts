/**
 * How the tables of `docs/options.md` are made of comments. The gate compares the page with the code.
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type ApiSymbol, readApi } from "../../tools/docs/api.ts";
import { HEAD, NOT_LISTED, TABLES } from "../../tools/docs/option_tables.ts";
import { firstSentence, optionsPage, withoutTable } from "../../tools/docs/options.ts";

/** A longer meaning is no cell of a table: make its first sentence two. */
const MAX_WORDS = 24;

const SOURCE = `
/** Options. */
export interface PlantedOptions {
  /** The wait, in ms, of a {@linkcode Lease}. More about it. */
  waitMs?: number | undefined;
  /**
   * The name
   * of it.
   *
   * @default {"a"}
   */
  name?: "a" | "b";
  /**
   * Called.
   *
   * @default a function that does nothing.
   */
  onEnd?: ((reason: string) => void) | undefined;
  /** Checks. */
  check(value: number): boolean;
}
/** Others. */
export interface OtherOptions {
  /** Another name. */
  name: string;
  /** Its size. */
  size: number;
}
/** Has no options of its own. */
export interface EmptyOptions extends OtherOptions {}
/** Lacks a comment. */
export interface SilentOptions {
  silent: boolean;
}
`;

async function planted(): Promise<ApiSymbol[]> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, SOURCE);
    return readApi([file]);
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("optionsPage() writes name, type, default, unit and first sentence of each option", async () => {
  const tables = [{ title: "Call", text: "A text.", of: ["PlantedOptions", "OtherOptions"] }];
  const page = optionsPage("# Options", tables, await planted()).replaceAll(/ {2,}/g, " ");
  const rows = [
    "| `waitMs` | `number` | - | ms | The wait of a `Lease` |",
    '| `name` | `"a" \\| "b"` | `"a"` | | The name of it |',
    "| `onEnd` | `(reason: string) => void` | a function that does nothing | | Called |",
    "| `check` | `(value: number) => boolean` | required | | Checks |",
    "| `size` | `number` | required | | Its size |",
  ];
  assertEquals(page.split("\n").filter((line) => line.startsWith("| `")), rows);
  assertStringIncludes(page, "### Call\n\nA text.\n\n| option ");
});

Deno.test("optionsPage() refuses an interface that is not exported, and an option without a comment", async () => {
  const symbols = await planted();
  const write = (name: string) => () => optionsPage("", [{ title: "Call", of: [name] }], symbols);
  assertThrows(write("NoOptions"), Error, "nothing exports NoOptions");
  assertThrows(write("SilentOptions"), Error, "SilentOptions.silent");
});

Deno.test("withoutTable() names the interfaces with options that are in no table", async () => {
  const tables = [{ title: "Call", of: ["PlantedOptions"] }];
  const symbols = await planted();
  assertEquals(withoutTable(tables, symbols, ["SilentOptions"]), ["OtherOptions"]);
  assertEquals(withoutTable(TABLES, readApi(), []), NOT_LISTED.toSorted());
});

Deno.test("firstSentence() ends at a full stop, and leaves out the unit", () => {
  assertEquals(firstSentence("How long in ms it\nlasts: 1.5 s. More."), "How long it lasts: 1.5 s");
  assertEquals(firstSentence("Ends `signal.reason`"), "Ends `signal.reason`");
});

Deno.test("the meaning of each option is short", () => {
  const rows = optionsPage(HEAD, TABLES, readApi()).split("\n")
    .filter((line) => line.startsWith("| `"));
  assert(rows.length > 70, `${rows.length} options: too few`);
  const long = rows.map((row) => row.split(" | ").at(-1)!.replace(/ *\|$/, ""))
    .filter((meaning) => meaning.split(" ").length > MAX_WORDS);
  assertEquals(long, []);
});
