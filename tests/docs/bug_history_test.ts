/**
 * Each row of `docs/bug-history.md` names what finds the bug again: files that exist, and titles that
 * some test has.
 */
import { assert, assertEquals } from "@std/assert";
import { filesIn } from "../../tools/architecture/imports.ts";

const ROOT = new URL("../../", import.meta.url);
const PAGE = Deno.readTextFileSync(new URL("docs/bug-history.md", ROOT));
/** A file of the tests, from the root; `{a,b}` stands for two of them. */
const FILE = /`((?:tests|testing)\/[^`]+)`/g;
const TITLE = /"([^"]+)"/g;

/** The cells of the rows, without the head of the table. */
function rowsOf(page: string): string[][] {
  return page.split("\n").filter((line) => line.startsWith("|")).slice(2)
    .map((line) => line.split(" | ").map((cell) => cell.replaceAll(/^\| | +\|?$/g, "").trim()));
}

/** The problems of one row. */
function problemsOf(cells: readonly string[], texts: ReadonlyMap<string, string>): string[] {
  if (cells.length !== 3 || cells.includes("")) return [`not three cells: ${cells.join(" | ")}`];
  const [, found = ""] = cells;
  const files = [...found.matchAll(FILE)].flatMap(([, path = ""]) => alternatives(path));
  const titles = [...found.matchAll(TITLE)].map(([, title = ""]) => title);
  return [
    ...files.filter((file) => !isThere(file, texts)).map((file) => `no file ${file}`),
    ...titles.filter((title) => ![...texts.values()].some((text) => text.includes(title)))
      .map((title) => `no test "${title}"`),
  ];
}

function alternatives(path: string): string[] {
  const [, before = "", names = "", after = ""] = /^(.*)\{(.*)\}(.*)$/.exec(path) ?? [];
  return names === "" ? [path] : names.split(",").map((name) => before + name + after);
}

/** Whether it is a file of the tests, or a folder of them. */
function isThere(path: string, texts: ReadonlyMap<string, string>): boolean {
  return texts.has(path) ||
    (path.endsWith("/") && [...texts.keys()].some((file) => file.startsWith(path)));
}

function testTexts(): Map<string, string> {
  const files = ["tests/", "testing/"].flatMap(filesIn).filter((file) => file.endsWith(".ts"));
  return new Map(files.map((file) => [file, Deno.readTextFileSync(new URL(file, ROOT))]));
}

Deno.test("each row of the bug history names tests that exist", () => {
  const rows = rowsOf(PAGE);
  assert(rows.length >= 134, `${rows.length} rows: none may go`);
  const texts = testTexts();
  texts.delete("tests/docs/bug_history_test.ts");
  assertEquals(rows.flatMap((row) => problemsOf(row, texts)), []);
});

Deno.test("the check of the bug history finds a missing file, an unknown title and an empty cell", () => {
  const texts = new Map([["tests/a_test.ts", 'Deno.test("Lock waits", f);'], [
    "testing/b/c.ts",
    "",
  ]]);
  const problems = (...cells: string[]) => problemsOf(cells, texts);
  assertEquals(problems("bug", '`tests/a_test.ts` "Lock waits", `testing/b/`', "fix"), []);
  assertEquals(problems("bug", '`tests/{a,b}_test.ts` "Lock flies"', "fix"), [
    "no file tests/b_test.ts",
    'no test "Lock flies"',
  ]);
  assertEquals(problems("bug", "", "fix"), ["not three cells: bug |  | fix"]);
});
