/**
 * Each decision in `docs/adr` has a status and a date, and its row in the index.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";

const FOLDER = new URL("../../docs/adr/", import.meta.url);
/** Numbers that were never given: the index says so. */
const NEVER_GIVEN = [9, 10, 12];

interface Decision {
  readonly file: string;
  readonly number: number;
  readonly row: string;
}

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, FOLDER));
}

/** The decisions in order; an error names the file whose head is not as it should be. */
function decisions(): Decision[] {
  const files = [...Deno.readDirSync(FOLDER)].map(({ name }) => name)
    .filter((name) => name !== "README.md").toSorted();
  return files.map((file) => {
    const head = /^# (\d+)\. (.+)\n\nStatus: (accepted|superseded), (\d{4}-\d\d-\d\d)[.;:]/.exec(
      read(file),
    );
    assert(head !== null, `${file} must begin with "# N. Title" and "Status: accepted, DATE."`);
    const [, number = "", title = "", status = "", date = ""] = head;
    assert(!Number.isNaN(Date.parse(date)), `${file}: ${date}`);
    assertMatch(file, new RegExp(`^${number.padStart(4, "0")}-[a-z0-9-]+\\.md$`));
    return {
      file,
      number: Number(number),
      row: `| ${number} | [${title}](${file}) | ${status} | ${date} |`,
    };
  });
}

Deno.test("each decision has a status and a date, and its row in the index", () => {
  const rows = read("README.md").split("\n").filter((line) => /^\| +\d/.test(line))
    .map((line) => line.replaceAll(/ +/g, " "));
  assertEquals(rows, decisions().map(({ row }) => row));
});

Deno.test("the numbers of the decisions have no gaps but those that the index explains", () => {
  const numbers = decisions().map(({ number }) => number);
  const given = Array.from({ length: Math.max(...numbers) }, (_, index) => index + 1)
    .filter((number) => !NEVER_GIVEN.includes(number));
  assertEquals(numbers, given);
  assertMatch(read("README.md"), /Numbers 9, 10 and 12 were never given/);
});

Deno.test("a status that names another decision links to it", () => {
  let links = 0;
  for (const { file } of decisions()) {
    const status = read(file).split("\n\n")[1]!;
    for (const [, path = ""] of status.matchAll(/\]\((\d{4}-[^)#]+)\)/g)) {
      assert(Deno.statSync(new URL(path, FOLDER)).isFile, `${file}: ${path}`);
      links++;
    }
  }
  assert(links > 20, `${links} links`);
});
