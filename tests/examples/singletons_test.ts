/** A cron job, a leader and a cache among several processes, with locks in files. */
import { cronOnce, leadersInTurn, refilledOnce } from "./singletons.ts";
import { filePlace } from "./programs.ts";

const TESTS = {
  "each tick of a cron job is run by one of three processes": cronOnce,
  "a leader that is killed or ends is followed by the next in line": leadersInTurn,
  "many requests in two processes refill a cache once": refilledOnce,
};

for (const [name, run] of Object.entries(TESTS)) {
  Deno.test(`${name}, with locks in files`, async () => {
    await using place = await filePlace();
    await run(place);
  });
}
