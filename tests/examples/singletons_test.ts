/** A cron job, a leader and a cache among several processes, with locks in files. */
import { assertEquals } from "@std/assert";
import { cronOnce, leadersInTurn, refilledOnce } from "../../testing/examples/singletons.ts";
import { filePlace, startProgram } from "../../testing/examples/programs.ts";

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

Deno.test("the examples explain themselves", async () => {
  await using place = await filePlace();
  for (const file of ["cron.ts", "leader.ts", "web/cache.ts", "web/koa.ts"]) {
    await using program = startProgram(file, place, "--help");
    assertEquals(await program.ended, 0);
    await program.saying("The lock lives in files, or where REDIS_URL or ZOOKEEPER_CONNECT say.");
  }
});
