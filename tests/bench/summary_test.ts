import { assertEquals, assertStringIncludes } from "@std/assert";
import { readFile } from "node:fs/promises";
import { REPORT } from "../../bench/command_line.ts";
import { readRecords } from "../../bench/library/report.ts";
import { SUITES } from "../../bench/suites/all.ts";
import { type Language, MARKS, READMES, summaryOf } from "../../bench/summary.ts";

/** The formatter pads the cells of tables and wraps lines. */
function words(text: string): string {
  return text.replaceAll(/-{3,}/g, "---").replaceAll(/\s+/g, " ").trim();
}

Deno.test("the READMEs show the figures of docs/bench, and no others", async () => {
  const records = await readRecords(REPORT, SUITES.map(({ name }) => name));
  const suites = records.map(({ suite }) => suite);
  for (const suite of ["uncontended", "contended", "idle", "file"]) {
    assertStringIncludes(suites.join(), suite);
  }
  assertEquals(records.filter(({ options }) => options.isQuick), []);
  for (const [language, file] of Object.entries(READMES)) {
    const readme = await readFile(file, "utf8");
    const shown = readme.slice(
      readme.indexOf(MARKS.begin) + MARKS.begin.length,
      readme.indexOf(MARKS.end),
    );
    assertEquals(words(shown), words(summaryOf(records, language as Language)), file);
  }
});
