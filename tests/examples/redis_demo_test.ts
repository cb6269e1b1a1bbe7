import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { freePort } from "../../testing/servers/ports.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { runDemo, runDemoOnServer } from "../../testing/examples/run_demo.ts";

Deno.test("demo.ts shows that the Redis lock loses no update", async () => {
  const { code, out, errors } = await runDemoOnServer("--backend", "redis", "--rounds", "5");
  assertEquals([code, errors], [0, ""]);
  assertMatch(out, /under the lock +20 +20 +nothing lost/);
  assertStringIncludes(out, "ok      each grant has a greater fencing token\n");
});

Deno.test("demo.ts --kill loses no update when the holder of the Redis lock is killed", async () => {
  const args = ["--backend", "redis", "--kill", "--rounds", "6"];
  const { code, out, errors } = await runDemoOnServer(...args);
  assertEquals([code, errors], [0, ""]);
  assertMatch(out, /under the lock +(\d+) +\1 +nothing lost/);
  assertMatch(out, /ok {6}worker \d was killed and the others went on\n/);
  assertMatch(out, /The next grant came \d+ ms later; the dead holder's lease had to run out/);
});

Deno.test("demo.ts leaves nothing behind on the Redis given by --url", async () => {
  await using server = await startRedis();
  await server.command("CONFIG", "SET", "requirepass", "sesame"); // our connection stays open
  const url = server.url.replace("://", "://:sesame@");
  const args = ["--backend", "redis", "--workers", "2", "--rounds", "2", "--url", url];
  const { code, out, errors } = await runDemoOnServer(...args);
  assertEquals([code, errors], [0, ""]);
  assertStringIncludes(out, "Redis: the server given by --url, under a random name");
  assertEquals(out.includes("sesame"), false);
  assertEquals(await server.command("DBSIZE"), 0);
});

Deno.test("demo.ts reports that Redis does not answer without printing the password", async () => {
  const url = `redis://:sesame@127.0.0.1:${freePort()}`;
  const { code, out, errors } = await runDemo("--backend", "redis", "--url", url);
  assertEquals(code, 1);
  assertStringIncludes(errors, "Cannot use the Redis at the address given by --url: start it");
  assertEquals((out + errors).includes("sesame"), false);
});
