/**
 * How the tables of `docs/options.md` are made of comments. The gate compares the page with the code.
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type ApiSymbol, readApi } from "../../tools/docs/api.ts";
import {
  ATTACHABLE_OPTIONS,
  QUERY_OPTIONS,
  REQUEST_OPTIONS,
} from "../../core/contract/call_options.ts";
import type { Rule } from "../../core/contract/options.ts";
import { STRATEGY_OPTIONS } from "../../core/lease/lifetime.ts";
import { FILE_LOCK_OPTIONS } from "../../file/options.ts";
import { HOLD_OPTIONS, LAMBDA_OPTIONS, MIDDLEWARE_OPTIONS } from "../../http/internal/options.ts";
import { LOCK_ROUTES_OPTIONS } from "../../lock_service/options.ts";
import { REDIS_LOCK_OPTIONS } from "../../redis/options.ts";
import { ZOOKEEPER_LOCK_OPTIONS } from "../../zookeeper/options.ts";
import { HEAD, NOT_LISTED, TABLES } from "../../tools/docs/option_tables.ts";
import { firstSentence, optionsOf, optionsPage, withoutTable } from "../../tools/docs/options.ts";

/** A longer meaning does not fit into a cell of a table: make its first sentence two. */
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

/** The tables of the code, by the interface whose comments they must agree with. */
const CODE: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  StrategyOptions: STRATEGY_OPTIONS,
  RedisLockOptions: REDIS_LOCK_OPTIONS,
  ZooKeeperLockOptions: ZOOKEEPER_LOCK_OPTIONS,
  FileLockOptions: FILE_LOCK_OPTIONS,
  AcquireOptions: ATTACHABLE_OPTIONS,
  AttachOptions: ATTACHABLE_OPTIONS,
  RequestOptions: REQUEST_OPTIONS,
  QueryOptions: QUERY_OPTIONS,
  HoldOptions: HOLD_OPTIONS,
  MiddlewareOptions: MIDDLEWARE_OPTIONS,
  LambdaLockOptions: LAMBDA_OPTIONS,
  LockRoutesOptions: LOCK_ROUTES_OPTIONS,
};

Deno.test("the default in the comment of an option is that of the code", () => {
  const differing: string[] = [];
  let compared = 0;
  for (const symbol of readApi().filter(({ name }) => Object.hasOwn(CODE, name))) {
    for (const { name, jsDoc } of optionsOf(symbol)) {
      const rule = CODE[symbol.name]![name];
      if (rule === undefined) differing.push(`${symbol.name}.${name}: no rule`);
      // A default in words, or a function, has no text that could be compared.
      const value = (jsDoc?.tags ?? []).find(({ kind }) => kind === "default")?.value;
      if (rule === undefined || value === undefined) continue;
      compared++;
      const text = JSON.stringify(rule.default)?.replaceAll(",", ", ");
      if (value !== text) differing.push(`${symbol.name}.${name}: ${value}, in the code ${text}`);
    }
  }
  assertEquals(differing, []);
  assert(compared >= 20, `${compared} defaults compared: too few`);
});
