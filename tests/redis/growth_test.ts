/**
 * The scripts cost the server no more when there are more waiters.
 */
import { assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { measureGrowth, type PathCost } from "../../testing/redis/growth/growth.ts";
import { excessesOf, growthOf, summaryOf } from "../../testing/redis/growth/limits.ts";

const SIZES = [10, 1_000, 10_000];

Deno.test("Scripts cost the server no more with 10,000 waiters than with 1,000, whatever became of their processes", async () => {
  const costs: PathCost[] = [];
  for (const waiters of SIZES) {
    for (const inboxes of [1, 4, waiters]) costs.push(...await measureGrowth({ waiters, inboxes }));
  }
  const growths = growthOf(costs);
  say(summaryOf(growths));
  assertEquals(growths.flatMap(excessesOf), []);
});
