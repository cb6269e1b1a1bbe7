import { assertEquals } from "@std/assert";
import { startRedis } from "../../testing/servers/redis.ts";
import { LONG_TTL_MS, TIME_FACTOR_VARIABLE } from "../../testing/time.ts";

Deno.test("RedisLock with deno-redis needs no permission but --allow-net for the server", async () => {
  await using server = await startRedis();
  const dir = await Deno.makeTempDir();
  const url = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
  await Deno.writeTextFile(
    `${dir}/script.ts`,
    `import { RedisLock } from ${url("../../redis/mod.ts")};
     import { denoRedis } from ${url("../../redis/clients/deno_redis.ts")};
     import { connectLike } from ${url("../../testing/redis/deno_redis_like.ts")};
     const client = denoRedis(() => connectLike(${JSON.stringify(server.url)}));
     await using locks = new RedisLock(client, { ttlMs: ${LONG_TTL_MS} });
     console.log(await locks.request("n", (lease) => lease.renew().then(() => "done")));`,
  );
  const allowed = [`--allow-net=127.0.0.1:${server.port}`];
  allowed.push(`--allow-env=${TIME_FACTOR_VARIABLE}`); // for the client, which belongs to the tests
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", ...allowed, `${dir}/script.ts`],
  }).output();
  await Deno.remove(dir, { recursive: true });
  assertEquals(new TextDecoder().decode(stdout).trim(), "done", new TextDecoder().decode(stderr));
});
