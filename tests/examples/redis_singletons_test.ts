/** A cron job, a leader and a cache among several processes, with locks on Redis. */
import { assertEquals, assertMatch } from "@std/assert";
import {
  cronOnce,
  leaderAsleep,
  leadersInTurn,
  refilledOnce,
} from "../../testing/examples/singletons.ts";
import { filePlace, redisPlace, startProgram } from "../../testing/examples/programs.ts";
import { startRedis } from "../../testing/servers/redis.ts";

/** Less than a refill of the cache takes. */
const TTL_MS = 200;

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

Deno.test("examples/web/cache.ts answers with a report when its lease is lost during the refill", async () => {
  await using server = await startRedis();
  await using place = await filePlace();
  const env = { ...place.env, HOLDFAST_URL: `${server.url}?ttlMs=${TTL_MS}` };
  await using program = startProgram("web/cache.ts", { ...place, env }, "--port", "0");
  const answer = fetch(await program.saying("Listening on "));
  await program.saying("refilled");
  await server.pause();
  const response = await answer;
  await server.resume();
  assertMatch(await response.text(), /^A report/);
  assertEquals(response.status, 200);
});
