/** `llms.txt`: the page about the project for language models, in the form of llmstxt.org. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { snippetsIn } from "../../tools/docs/snippets.ts";

const PAGE = Deno.readTextFileSync("llms.txt");
const LINK_LINE = /^- \[[^\]]+\]\(([^)]+)\)(: .+)?$/;

/** The list of links of a section. */
function linksOf(heading: string): string[] {
  const section = PAGE.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const lines = section.split("\n").slice(1).filter((line) => line !== "");
  return lines.map((line) => {
    assertMatch(line, LINK_LINE);
    return LINK_LINE.exec(line)![1]!;
  });
}

Deno.test("llms.txt has a title, a summary, and links that exist, to every page of docs/", () => {
  assertMatch(PAGE, /^# .+\n\n> (.+\n)+/);
  const links = [...linksOf("Docs"), ...linksOf("Optional")];
  for (const link of links) assert(Deno.statSync(link).isFile, link);
  const pages = [...Deno.readDirSync("docs")].filter(({ name }) => name.endsWith(".md"));
  const missing = pages.map(({ name }) => `docs/${name}`).filter((page) => !links.includes(page));
  assertEquals(missing, []);
});

Deno.test("llms.txt names every entry, and has an example of each strategy", () => {
  const { exports } = JSON.parse(Deno.readTextFileSync("deno.json")) as {
    exports: Record<string, string>;
  };
  const entries = Object.keys(exports).map((entry) => entry.slice(1));
  assertEquals(entries.filter((entry) => !PAGE.includes(`\`${entry || "@holdfast/lock"}\``)), []);
  const code = snippetsIn("llms.txt", PAGE).map((snippet) => snippet.code).join("\n");
  for (const strategy of ["RedisLock", "ZooKeeperLock", "FileLock", "MemoryLock"]) {
    assert(code.includes(`new ${strategy}(`), strategy);
  }
});
