/** Jobs of several processes, of which only some may run at the same time, with locks on Redis. */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { redisPlace, startProgram } from "../../testing/examples/programs.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { sharedHolders } from "../../testing/redis/queue_reader.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";

const LIMIT = 3;
const JOBS = 8;

Deno.test("examples/limited_jobs.ts runs at most three jobs at the same time in two processes, with locks on Redis", async () => {
  await using place = await redisPlace();
  using observer = await connectResp(place.env["HOLDFAST_URL"]!);
  const args = ["--limit", String(LIMIT), "--jobs", String(JOBS), "--ms", "50"];
  await using first = startProgram("limited_jobs.ts", place, ...args);
  await using second = startProgram("limited_jobs.ts", place, ...args);
  let most = 0;
  const keys = lockKeys("lock:", "exports");
  const ended = () =>
    [first, second].flatMap(({ lines }) => lines).filter((line) => line.startsWith("Ended"));
  await waitUntil("all jobs have ended", async () => {
    most = Math.max(most, (await sharedHolders(observer.command, keys)).length);
    return ended().length === 2 * JOBS;
  });
  assertEquals(await Promise.all([first.ended, second.ended]), [0, 0]);
  assertEquals(await observer.command("EXISTS", keys.token), 1, "the jobs used the observed lock");
  assertLessOrEqual(most, LIMIT);
});
