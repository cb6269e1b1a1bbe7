import { assertEquals } from "@std/assert";
import type { Hold } from "../../examples/demo/history.ts";
import { quantile } from "../../examples/demo/report.ts";
import {
  closeUp,
  columnMsOf,
  drawTimeline,
  TIMELINE_COLUMNS,
  wholeRun,
} from "../../examples/demo/timeline.ts";

function hold(worker: number, fromMs: number, toMs: number | null): Hold {
  return { worker, fromMs, toMs, token: 1n, waitedMs: 0 };
}

/** The cells of each row, without its name and frame. */
function cells(rows: readonly string[]): string[] {
  return rows.map((row) => row.split("│")[1]!);
}

Deno.test("drawTimeline() shades each column by how long the lock was held", () => {
  const window = { fromMs: 100, toMs: 100 + 4 * TIMELINE_COLUMNS };
  const holds = [hold(1, 100, 108), hold(2, 108, 109), hold(1, 112, 114), hold(2, 116, 119)];
  const rest = " ".repeat(TIMELINE_COLUMNS - 5);
  assertEquals(cells(drawTimeline(holds, 2, window)), [`██ ▒ ${rest}`, `  ░ ▓${rest}`]);
});

Deno.test("drawTimeline() adds up short holds and splits those that span columns", () => {
  const window = { fromMs: 0, toMs: 4 * TIMELINE_COLUMNS };
  const holds = [hold(1, 0, 1), hold(1, 2, 3), hold(1, 7, 9)];
  const rest = " ".repeat(TIMELINE_COLUMNS - 3);
  assertEquals(cells(drawTimeline(holds, 1, window)), [`▒░░${rest}`]);
});

Deno.test("drawTimeline() cuts holds at the edges of its window", () => {
  const window = { fromMs: 10, toMs: 10 + TIMELINE_COLUMNS };
  const holds = [
    hold(1, 0, 11),
    hold(1, 5, 9),
    hold(1, 9 + TIMELINE_COLUMNS, 500),
    hold(1, 600, 700),
  ];
  const middle = " ".repeat(TIMELINE_COLUMNS - 2);
  assertEquals(cells(drawTimeline(holds, 1, window)), [`█${middle}█`]);
});

Deno.test("drawTimeline() fills its width at every scale", () => {
  for (const lengthMs of [0.1, 1 / 3, 7, 1234.5678, 1e7]) {
    const holds = [hold(1, 1.7e12, 1.7e12 + lengthMs)];
    const [row] = cells(drawTimeline(holds, 1, { fromMs: 1.7e12, toMs: holds[0]!.toMs! }));
    assertEquals(row, "█".repeat(TIMELINE_COLUMNS), `${lengthMs} ms`);
  }
});

Deno.test("drawTimeline() pads the names of the workers to one width", () => {
  const rows = drawTimeline([hold(10, 0, 1)], 10, { fromMs: 0, toMs: 72 });
  assertEquals(rows.length, 10);
  assertEquals(new Set(rows.map((row) => row.indexOf("│"))), new Set(["worker 10 ".length]));
});

Deno.test("wholeRun() covers the whole run and closeUp() starts at its middle", () => {
  const holds = [hold(1, 100, 110), hold(2, 120, 130), hold(1, 140, null)];
  assertEquals(wholeRun(holds), { fromMs: 100, toMs: 140 });
  assertEquals(closeUp(holds, 2).fromMs, 120);
  assertEquals(columnMsOf(closeUp(holds, 2)), 2);
});

Deno.test("quantile() takes the nearest rank", () => {
  const values = Array.from({ length: 100 }, (_, index) => index + 1);
  assertEquals([0.5, 0.95, 1].map((share) => quantile(values, share)), [50, 95, 100]);
  assertEquals([quantile([7], 0.5), quantile([7], 0.95), quantile([], 0.5)], [7, 7, 0]);
});
