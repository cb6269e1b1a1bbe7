import { assertEquals } from "@std/assert";
import { contentionOf, gather } from "../../bench/library/contention.ts";
import { progressLine } from "../../bench/library/progress.ts";
import { rotated } from "../../bench/library/rounds.ts";
import { median, quantile, quartiles, ratios } from "../../bench/library/statistics.ts";
import { markdownOf, number, quartilesCell } from "../../bench/library/tables.ts";

Deno.test("quantile() interpolates between neighbours and does not reorder its argument", () => {
  const values = [4, 1, 3, 2];
  assertEquals(quantile(values, 0), 1);
  assertEquals(quantile(values, 0.5), 2.5);
  assertEquals(quantile(values, 1), 4);
  assertEquals(values, [4, 1, 3, 2]);
  assertEquals(quantile([7], 0.99), 7);
  assertEquals(quantile([], 0.5), NaN);
  assertEquals(median([5, 1, 3]), 3);
  assertEquals(quartiles([1, 2, 3, 4, 5]), { low: 2, median: 3, high: 4 });
});

Deno.test("ratios() compares the figures of the same round", () => {
  assertEquals(ratios([2, 9, 8], [1, 3, 4]), [2, 3, 2]);
  assertEquals(ratios([2, 9], []), []);
});

Deno.test("rotated() begins each round with another job", () => {
  assertEquals([0, 1, 2, 3].map((round) => rotated(["a", "b", "c"], round).join("")), [
    "abc",
    "bca",
    "cab",
    "abc",
  ]);
  assertEquals(rotated([], 2), []);
});

/** Grants of a process: `[called, granted, released]` in ms, all of its waiter 0. */
function columns(...grants: readonly (readonly [number, number, number])[]) {
  const column = (index: 0 | 1 | 2) => grants.map((grant) => grant[index] * 1_000);
  const waiter = grants.map(() => 0);
  return { calledUs: column(0), grantedUs: column(1), releasedUs: column(2), waiter };
}

Deno.test("contentionOf() finds handoffs, the time held, and a waiter that was passed over", () => {
  const grants = gather([
    columns([0, 5, 10], [10, 20, 30], [30, 40, 50]),
    columns([0, 10, 20], [20, 55, 60]),
  ]);
  assertEquals(grants.map(({ waiter }) => waiter), ["0.0", "1.0", "0.0", "0.0", "1.0"]);
  const figures = contentionOf(grants, 2, [0, 100_000]);
  assertEquals(figures.grantsPerSecond, 50);
  assertEquals(figures.handoffUs, (0 + 0 + 10_000 + 5_000) / 4);
  assertEquals(figures.shareHeld, 0.4);
  assertEquals(figures.inversions, 1 / 3, "the last grant is of a call before that of the third");
  assertEquals(figures.leastServed, 2 / 2.5);
  assertEquals(figures.waitP50Ms, 10);
  assertEquals(contentionOf(grants, 3, [0, 100_000]).leastServed, 0, "one waiter was never served");
  assertEquals(contentionOf(grants, 2, [40_000, 100_000]).grantsPerSecond, 2 / 0.06);
  const first = contentionOf(grants, 2, [0, 15_000]);
  assertEquals(first.inversions, NaN, "first calls are all made at once");
});

Deno.test("number() keeps three digits, and tables name missing figures", () => {
  assertEquals([1_234.5, 123.4, 12.34, 1.234, 0.5, NaN].map(number), [
    "1,235",
    "123",
    "12.3",
    "1.23",
    "0.50",
    "–",
  ]);
  assertEquals(quartilesCell([1, 2, 3]), "2.00 (1.50–2.50)");
  assertEquals(quartilesCell([]), "–");
  assertEquals(
    markdownOf({ title: "T", rows: [["a", "b"], ["c", "1"]] }),
    "### T\n\n| a | b |\n| --- | ---: |\n| c | 1 |",
  );
});

Deno.test("progressLine() estimates the time left from the steps that are done", () => {
  const at = { steps: 10, elapsedMs: 4_000, label: "ours" };
  assertEquals(progressLine("idle", { ...at, step: 1 }), "idle: 1 of 10: ours");
  assertEquals(progressLine("idle", { ...at, step: 3 }), "idle: 3 of 10, 16 s left: ours");
});
