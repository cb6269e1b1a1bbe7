import { assertEquals } from "@std/assert";
import type { Event } from "../../examples/demo/history.ts";
import { type Victim, watchForVictim } from "../../examples/demo/victim.ts";

function granted(worker: number, round: number): Event {
  return { event: "granted", worker, round, token: "1", waitedMs: 0, atMs: 0 };
}

function finished(worker: number, round: number): Event {
  return { event: "finished", worker, round, atMs: 0 };
}

function victims(finishedRounds: number, events: Event[]): (Victim | null)[] {
  const findVictim = watchForVictim(finishedRounds);
  return events.map((event) => findVictim(event));
}

Deno.test("watchForVictim() picks the holder at the chosen moment, once", () => {
  const events = [granted(1, 1), finished(1, 1), granted(2, 1), granted(2, 1), finished(2, 1)];
  assertEquals(victims(1, events), [null, null, { worker: 2, round: 1 }, null, null]);
});

Deno.test("watchForVictim() can pick the very first holder", () => {
  assertEquals(victims(0, [granted(3, 1), granted(3, 1)]), [{ worker: 3, round: 1 }, null]);
});

Deno.test("watchForVictim() picks the holder even when its event arrives before the last release", () => {
  const events = [granted(1, 1), granted(2, 1), finished(1, 1)];
  assertEquals(victims(1, events), [null, null, { worker: 2, round: 1 }]);
});
