import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { readFile, rm } from "node:fs/promises";
import { FigureBook } from "../../bench/library/figures.ts";
import { parseResult, type SuiteRecord } from "../../bench/library/record.ts";
import { storeRecord, writePages } from "../../bench/library/report.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";

function recordOf(): SuiteRecord {
  const book = new FigureBook();
  for (const value of [1.23456, 2, NaN]) book.add("ours", { calls: 64 }, { "µs per cycle": value });
  const points = [1, 10, 100].map((x) => ({ series: "ours", x, y: 1.5 * x }));
  const axes = { x: "waiters", y: "µs", log: { x: true, y: true } };
  return {
    suite: "demo",
    title: "A demonstration",
    command: "deno task bench demo",
    options: { isQuick: true, clients: 1 },
    seconds: 3,
    machine: {
      date: "2026-01-01 00:00",
      commit: "abc",
      cpu: "2 × CPU",
      memory: "8 GB",
      system: "linux",
      load: 0.1,
      versions: { Deno: "2" },
    },
    tables: [{ title: "Table", rows: [["contender", "µs"], ["ours", "1.2"]] }],
    plots: [{ name: "demo-lines", title: "Lines", kind: "lines", ...axes, points }],
    verdicts: [
      { title: "fast", value: 1.2, limit: 1.5 },
      { title: "slow", value: NaN, limit: 1.5 },
    ],
    notes: ["A note."],
    figures: book.list(),
  };
}

Deno.test("writePages() writes a page, a plot and an index from the stored numbers", async () => {
  const dir = await makeTempDirectory();
  try {
    const text = await readFile(await storeRecord(dir, recordOf()), "utf8");
    assertEquals(parseResult(text).figures, [
      { contender: "ours", at: { calls: 64 }, measure: "µs per cycle", values: [1.235, 2, NaN] },
    ]);
    const files = await writePages(dir, ["other", "demo"]);
    assertEquals(files.map((file) => file.slice(dir.length + 1)), [
      "demo-lines.svg",
      "demo.md",
      "README.md",
    ]);
    const [svg, page, index] = await Promise.all(files.map((file) => readFile(file, "utf8")));
    assert(svg!.startsWith("<svg") && svg!.trimEnd().endsWith("</svg>"), svg!.slice(0, 100));
    assertStringIncludes(svg!, "waiters");
    assertStringIncludes(page!, "![Lines](demo-lines.svg)");
    assertStringIncludes(page!, "| ours | 1.2 |");
    assertStringIncludes(page!, "| slow | – | 1.5 | **over** |");
    assertStringIncludes(page!, "2 × CPU");
    assertStringIncludes(index!, "[A demonstration](demo.md) | 2026-01-01 00:00, quick | 1 of 2 |");
  } finally {
    await rm(dir, { recursive: true });
  }
});
