import { assertEquals } from "@std/assert";
import { barOf, timeOf } from "../../../testing/runner/output.ts";

Deno.test("barOf() shows how many files are done, and estimates the time left", () => {
  assertEquals(barOf(0, 300, 5_000), "[------------------------] 0 of 300 files");
  assertEquals(
    barOf(200, 300, 240_000),
    "[################--------] 200 of 300 files, about 2 min 0 s left",
  );
  assertEquals(
    barOf(300, 300, 1_000),
    "[########################] 300 of 300 files, about 0 s left",
  );
});

Deno.test("timeOf() writes minutes from 60 s", () => {
  assertEquals([59_400, 59_600, 450_000].map(timeOf), ["59 s", "1 min 0 s", "7 min 30 s"]);
});
