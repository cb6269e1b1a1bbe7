/** A cron job, a leader and a cache among several processes, with locks on Redis. */
import {
  cronOnce,
  leaderAsleep,
  leadersInTurn,
  refilledOnce,
} from "../../testing/examples/singletons.ts";
import { redisPlace } from "../../testing/examples/programs.ts";

const TESTS = {
  "examples/cron.ts runs each tick in one of three processes": cronOnce,
  "examples/leader.ts lets the next process lead when the leader is killed or ends": leadersInTurn,
  "examples/leader.ts waits for its turn again after it was suspended for too long": leaderAsleep,
  "examples/web/cache.ts refills the cache once for many requests in two processes": refilledOnce,
};

for (const [name, run] of Object.entries(TESTS)) {
  Deno.test(`${name}, with locks on Redis`, async () => {
    await using place = await redisPlace();
    await run(place);
  });
}
