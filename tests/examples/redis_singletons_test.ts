/** A cron job, a leader and a cache among several processes, with locks on Redis. */
import {
  cronOnce,
  leaderAsleep,
  leadersInTurn,
  refilledOnce,
} from "../../testing/examples/singletons.ts";
import { redisPlace } from "../../testing/examples/programs.ts";

const TESTS = {
  "each tick of a cron job is run by one of three processes": cronOnce,
  "a leader that is killed or ends is followed by the next in line": leadersInTurn,
  "a leader that was asleep for too long stands in line again": leaderAsleep,
  "many requests in two processes refill a cache once": refilledOnce,
};

for (const [name, run] of Object.entries(TESTS)) {
  Deno.test(`${name}, with locks on Redis`, async () => {
    await using place = await redisPlace();
    await run(place);
  });
}
