import { assertEquals, assertStringIncludes } from "@std/assert";
import { readFile } from "node:fs/promises";
import { REPORT } from "../../bench/command_line.ts";
import { readRecords } from "../../bench/library/report.ts";
import { SUITES } from "../../bench/suites/all.ts";
import { MARKS, summaryOf } from "../../bench/summary.ts";

/** The formatter pads the cells of tables and wraps lines. */
function words(text: string): string {
  return text.replaceAll(/-{3,}/g, "---").replaceAll(/\s+/g, " ").trim();
}

Deno.test("README shows the figures of docs/bench, and no others", async () => {
  const records = await readRecords(REPORT, SUITES.map(({ name }) => name));
  const suites = records.map(({ suite }) => suite);
  for (const suite of ["uncontended", "contended", "idle", "loss"]) {
    assertStringIncludes(suites.join(), suite);
  }
  assertEquals(records.filter(({ options }) => options.isQuick), []);
  const readme = await readFile("README.md", "utf8");
  const shown = readme.slice(
    readme.indexOf(MARKS.begin) + MARKS.begin.length,
    readme.indexOf(MARKS.end),
  );
  assertEquals(words(shown), words(summaryOf(records)));
});
