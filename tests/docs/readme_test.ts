/**
 * README: its length, its sections and their order, the figures of its comparison, and that the Chinese
 * README says the same.
 */
import { assert, assertEquals } from "@std/assert";
import { blocksIn } from "../../tools/docs/snippets.ts";

const ROOT = new URL("../../", import.meta.url);
const MAX_LINES = 200;
const SECTIONS = [
  "Why this one",
  "Status",
  "Quick start",
  "Usage",
  "Use a lease safely",
  "Choose a strategy",
  "Limits",
  "Documentation",
];
const EXAMPLES = ["Redis", "ZooKeeper", "Files"];
const README = "README.md";
const CHINESE = "README.zh-CN.md";
const PAGES = [README, CHINESE];
const PEERS_HEADING = "Other Redis packages under the same faults";

/** A comment of JavaScript or of the shell. */
const COMMENT = /(?<=^|\s)(?:\/\/|#) .*$/gm;
const CODE_BLOCK = /^ *```[^]*?^ *```$/gm;
const CODE_SPAN = /`[^`\n]+`/g;
const LINK_TARGET = /\]\(([^)\s]+)\)/g;
const TABLE_HEAD = /^\|.*\n\| *-.*$/gm;
const NUMBER = /\d+(?:[.,]\d+)*/g;

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

/** The headings of a level. */
function headings(text: string, level: number): string[] {
  const pattern = new RegExp(`^#{${level}} (.+)$`, "gm");
  return [...text.replaceAll(CODE_BLOCK, "").matchAll(pattern)].map(([, title = ""]) => title);
}

/** The text above the first section, then each section, of all levels. */
function sectionsOf(text: string): string[] {
  return text.replaceAll(CODE_BLOCK, "").split(/^#{2,3} .*$/m);
}

function matchesOf(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map((match) => match[1] ?? match[0]).toSorted();
}

/** The numbers of a text, without those in code and in the targets of links. */
function numbersOf(text: string): string[] {
  return matchesOf(text.replaceAll(CODE_SPAN, "").replaceAll(LINK_TARGET, ""), NUMBER);
}

Deno.test("README.md has at most 200 lines, and its sections in their order", () => {
  const text = read(README);
  const lines = text.trimEnd().split("\n").length;
  assert(lines <= MAX_LINES, `${lines} lines: move something to a page of docs/`);
  assertEquals(headings(text, 2), SECTIONS);
  assertEquals(headings(text, 3), EXAMPLES);
});

Deno.test("README.md states the guarantee and its exceptions before the first section", () => {
  const [intro = ""] = sectionsOf(read(README));
  for (const part of ["**The guarantee", "**The exceptions", "(docs/safety.md)"]) {
    assert(intro.includes(part), part);
  }
});

Deno.test("README.md takes the figures of its comparison from docs/safety.md", () => {
  const rows = read(README).split("\n").filter((line) =>
    line.includes("`deno task faults:peers` |")
  );
  assert(rows.length >= 5, `${rows.length} rows: too few`);
  const source = read("docs/safety.md").split(`## ${PEERS_HEADING}`)[1]!.split(/^## /m)[0]!;
  const known = new Set(numbersOf(source));
  assertEquals(rows.flatMap(numbersOf).filter((number) => !known.has(number)), []);
});

Deno.test("each row of the tables of figures in README.md names its command", () => {
  const [, why = ""] = sectionsOf(read(README));
  const rows = why.replaceAll(TABLE_HEAD, "").split("\n").filter((line) => line.startsWith("| "));
  assert(rows.length >= 14, `${rows.length} rows: too few`);
  assertEquals(rows.filter((row) => !/`deno task [^`]+` *\|$/.test(row)), []);
});

Deno.test("README.zh-CN.md has the code blocks of README.md, with the comments in Chinese", () => {
  const [english, chinese] = PAGES.map((page) => blocksIn(page, read(page)));
  assert(english!.length >= 5, `${english!.length} code blocks: too few`);
  const code = (blocks: typeof english) =>
    blocks!.map(({ info, code }) => ({ info, code: code.replaceAll(COMMENT, "") }));
  assertEquals(code(chinese), code(english));
  const comments = (blocks: typeof english) =>
    blocks!.flatMap(({ code }) => code.match(COMMENT) ?? []);
  const known = new Set(comments(english));
  const foreign = comments(chinese).filter((text) => !/\p{Script=Han}/u.test(text));
  assertEquals(foreign.filter((text) => !/where|select/.test(text) || !known.has(text)), []);
  assertEquals(comments(chinese).length, known.size);
});

Deno.test("README.zh-CN.md has the sections, figures, commands and links of README.md", () => {
  const levels = (text: string) => text.replaceAll(CODE_BLOCK, "").match(/^#+(?= )/gm);
  assertEquals(levels(read(CHINESE)), levels(read(README)));
  const [english, chinese] = PAGES.map((page) => sectionsOf(read(page)));
  for (const [index, section] of english!.entries()) {
    const title = `section ${index}: ${section.trim().slice(0, 60)}`;
    const other = chinese![index]!;
    assertEquals(numbersOf(other), numbersOf(section), title);
    assertEquals(matchesOf(other, CODE_SPAN), matchesOf(section, CODE_SPAN), title);
    const links = (text: string) =>
      matchesOf(text, LINK_TARGET).filter((target) => !PAGES.includes(target));
    assertEquals(links(other), links(section), title);
  }
});
