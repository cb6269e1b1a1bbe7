import { assert, assertEquals, assertRejects } from "@std/assert";
import Fastify from "fastify";
import { lockRoutes } from "../../lock_service/mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";
import { call, openService } from "../../testing/lock_service/lock_service.ts";

for (const isHttp2 of [false, true]) {
  const over = isHttp2 ? " over HTTP/2" : "";
  Deno.test(`lockRoutes() PUT acquires nothing when the client disconnects before authorize() has answered${over}`, async () => {
    await using redis = await startRedis();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let asking = 0;
    let left = 0;
    await using service = await openService({
      redisUrl: redis.url,
      isHttp2,
      prepare: (app) =>
        void app.addHook("onRequest", (_request, { raw }, done) => {
          raw.once("close", () => left++);
          done();
        }),
      routes: {
        async authorize(_request, { key }) {
          asking++;
          if (key !== "free") await gate;
          return "alice";
        },
      },
    });
    const { url } = service;
    const leave = new AbortController();
    const waits = [0, 30_000].map((waitMs) =>
      call(url, "PUT", `/lock/gone${waitMs}/i`, { body: { waitMs }, signal: leave.signal, isHttp2 })
    );
    const here = call(url, "PUT", "/lock/here/i", { isHttp2 });
    await waitUntil("all requests wait for authorize()", () => asking === 3);
    leave.abort();
    for (const wait of waits) await assertRejects(() => wait, DOMException);
    await waitUntil("the server has noticed", () => left === 2);
    open();
    assertEquals((await here).status, 200); // the last of the three: the others were handled before
    for (const key of ["gone0", "gone30000"]) {
      assertEquals((await call(url, "GET", `/lock/${key}`, { isHttp2 })).body.held, false);
    }
    assertEquals(service.errors, []);
  });
}

Deno.test("lockRoutes() DELETE never prolongs a lease to the TTL of the RedisLock: its release may not arrive", async () => {
  await using redis = await startRedis();
  const { client, close } = await openRedisClient("node-redis", redis.url);
  const lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
  const attach = lock.attach.bind(lock);
  let leftMs: number | undefined;
  lock.attach = async (name, ...rest) => {
    const lease = await attach(name, ...rest);
    leftMs = (await lock.query(name)).holders[0]?.remainingMs;
    return lease;
  };
  const app = Fastify();
  app.register(lockRoutes, { lock, authorize: () => "alice" });
  const body = { ttlMs: LONG_TTL_MS / 2 };
  assertEquals((await app.inject({ method: "PUT", url: "/lock/k/i", body })).statusCode, 200);
  assertEquals((await app.inject({ method: "DELETE", url: "/lock/k/i" })).statusCode, 200);
  assert(leftMs !== undefined && leftMs <= LONG_TTL_MS / 2, `${leftMs}`);
  assertEquals((await lock.query("k")).holders, []);
  await app.close();
  await lock[Symbol.asyncDispose]();
  await close();
});

Deno.test("lockRoutes() calls onError once for each request that Redis does not answer", async () => {
  await using redis = await startRedis();
  await using service = await openService({
    redisUrl: redis.url,
    lock: { unavailableAfterMs: scaled(1_000) },
  });
  const { url, errors } = service;
  const methods = ["PUT", "PATCH", "DELETE"];
  for (const key of methods) assertEquals((await call(url, "PUT", `/lock/${key}/i`)).status, 200);
  await redis.pause();
  // Redis is asked about a lease until it ends; the client gets its answer earlier.
  const answers = methods.map((method) => call(url, method, `/lock/${method}/i`));
  answers.push(call(url, "GET", "/lock/k"));
  for (const { status } of await Promise.all(answers)) assertEquals(status, 503);
  assertEquals(errors.length, 4, String(errors));
  for (const error of errors) assert(error instanceof Error && error.message !== "");
  await redis.resume();
});
