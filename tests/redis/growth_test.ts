/**
 * The scripts cost the server no more when there are more waiters.
 */
import { assertEquals } from "@std/assert";
import { say } from "../../testing/processes/figures.ts";
import { measureGrowth, type PathCost } from "../../testing/redis/growth/growth.ts";
import { excessesOf, growthOf, slowdownsOf, summaryOf } from "../../testing/redis/growth/limits.ts";

/** The soak has more waiters, has the most in 4 inboxes, too, and judges times, as the bench does. */
const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
// No call for one waiter may sweep at one size only: sweeps are paths of their own, and come with each 16th ticket.
const MOST_WAITERS = SOAK ? 10_008 : 4_008;
const SIZES = [10, 1_000, MOST_WAITERS];
const TIMINGS = SOAK ? 5 : 0;

function inboxesOf(waiters: number): number[] {
  return waiters < MOST_WAITERS || SOAK ? [1, 4, waiters] : [1, waiters];
}

Deno.test(`Scripts cost the server no more with ${MOST_WAITERS.toLocaleString("en")} waiters than with 1,000, whatever became of their processes`, async () => {
  const costs: PathCost[] = [];
  for (const waiters of SIZES) {
    for (const inboxes of inboxesOf(waiters)) {
      costs.push(...await measureGrowth({ waiters, inboxes }, TIMINGS));
    }
  }
  const growths = growthOf(costs);
  say(summaryOf(growths));
  assertEquals(growths.flatMap(excessesOf), []);
  if (SOAK) assertEquals(growths.flatMap(slowdownsOf), []);
});
