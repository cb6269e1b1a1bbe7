/**
 * The files and functions that `CONTRIBUTING.md` sends its readers to exist.
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync } from "node:fs";

const ROOT = new URL("../../", import.meta.url);
const PAGE = read("CONTRIBUTING.md");
/** A step: its number, the function, the text and the target of the link to its file. */
const STEP = /^(\d+)\. `([^`]+)\(\)` in\s+\[([^\]]+)\]\(([^)]+)\)/gm;
const PATH = /`([\w./-]+(?:\/|\.(?:ts|md|txt|json|pml)))`/g;

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

/** The text below a heading, up to the next one. */
function sectionOf(page: string, heading: string): string {
  const text = page.split(`\n## ${heading}\n`)[1];
  assert(text !== undefined, `no section "${heading}"`);
  return text.split("\n## ")[0]!;
}

/** The paths of a table that do not exist. A row must have one in each column but the first. */
function problemsOfRow(row: string): string[] {
  const [, , files = "", others = "", first = ""] = row.split("|");
  return [files, others, first].flatMap((cell) => {
    const paths = [...cell.matchAll(PATH)].map(([, path = ""]) => path);
    if (paths.length === 0) return [`no file in "${cell.trim()}"`];
    return paths.filter((path) => !existsSync(new URL(path, ROOT)));
  });
}

/** Whether a source defines a function, or a method as `Class.method` or `Class.#method`. */
function defines(source: string, name: string): boolean {
  const [owner = "", method] = name.split(".");
  if (method === undefined) {
    return new RegExp(`^(?:local |export )?(?:async )?function ${owner}[<(]`, "m").test(source);
  }
  const body = new RegExp(`^export class ${owner}\\b[^]*?^}`, "m").exec(source)?.[0] ?? "";
  return new RegExp(`^  (?:async )?${method}[<(]`, "m").test(body);
}

Deno.test("each file of the table of changes exists", () => {
  const section = sectionOf(PAGE, "Where do I change what");
  const rows = section.split("\n").filter((line) => line.startsWith("|")).slice(2);
  assert(rows.length > 20, `${rows.length} rows: too few`);
  assertEquals(rows.flatMap(problemsOfRow), []);
});

Deno.test("each test of the table of questions exists", () => {
  const section = sectionOf(PAGE, "Which test answers what");
  const rows = section.split("\n").filter((line) => line.startsWith("|")).slice(2);
  assert(rows.length > 20, `${rows.length} rows: too few`);
  const paths = rows.map((row) => [...row.matchAll(PATH)].map(([, path = ""]) => path));
  assertEquals(rows.filter((_, i) => paths[i]!.length === 0), []);
  assertEquals(paths.flat().filter((path) => !existsSync(new URL(path, ROOT))), []);
});

Deno.test("CONTRIBUTING.md lists each task of deno.json once", () => {
  const section = sectionOf(PAGE, "Tasks");
  const listed = [...section.matchAll(/^deno task ([\w:]+)/gm)].map(([, name]) => name!);
  const tasks = Object.keys(JSON.parse(read("deno.json")).tasks);
  assertEquals(listed.toSorted(), tasks.toSorted());
});

Deno.test("each step of the walk through an acquire names a function of its file", () => {
  const section = sectionOf(PAGE, "A contended acquire, step by step");
  const steps = [...section.matchAll(STEP)];
  const count = section.split("\n").filter((line) => /^\d+\./.test(line)).length;
  assertEquals(
    steps.map(([, number]) => Number(number)),
    Array.from(Array(count), (_, i) => i + 1),
  );
  assert(count > 20, `${count} steps: too few`);
  const wrong = steps.filter(([, , name = "", text = "", target = ""]) =>
    text !== target || !defines(read(target), name)
  );
  assertEquals(wrong.map(([step]) => step), []);
});

Deno.test("the checks of CONTRIBUTING.md find a missing file, function and method", () => {
  assertEquals(
    problemsOfRow("| a | `core/lease/lease.ts` | `docs/` | `tests/no_test.ts`, `core/` |"),
    [
      "tests/no_test.ts",
    ],
  );
  assertEquals(problemsOfRow("| a | `deno task embed` | `docs/` | `core/` |"), [
    'no file in "`deno task embed`"',
  ]);
  const source =
    "export class A {\n  #b(c: D): void {}\n}\nexport class E {\n  async f<T>() {}\n}\n";
  assertEquals(["A.#b", "A.b", "A.f", "E.f"].map((name) => defines(source, name)), [
    ...[true, false, false, true],
  ]);
  assertEquals(["g", "h"].map((name) => defines("local function g(a) end\n", name)), [true, false]);
});
