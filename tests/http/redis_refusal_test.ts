/**
 * A server whose lock is refused by Redis: that is not an outage, so no request runs without the lock.
 */
import { assertEquals } from "@std/assert";
import type { HoldOptions } from "../../http/mod.ts";
import { LockSetupError } from "../../mod.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { express5, fastify, fetchApi, koa, type Serve } from "../../testing/http/one_route.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** Sends requests to a server that proceeds in an outage. Returns their statuses and errors. */
async function serve(client: RedisClient): Promise<string[]> {
  const outcomes: string[] = [];
  await using locks = new RedisLock(client, { unavailableAfterMs: scaled(3_000) });
  for (const waitMs of [0, 1_000]) {
    // First, as it has time to connect: a request that waits for that is an outage.
    const error = await locks.acquire("key").catch((error) => error);
    outcomes.push(String(error instanceof LockSetupError));
    const server = await fetchApi(() => {
      outcomes.push("the handler runs");
      return new Response("done");
    }, { waitMs, onUnavailable: "proceed" })(locks);
    const response = await fetch(server.url);
    await response.text();
    outcomes.push(String(response.status));
    await server.stop();
  }
  return outcomes;
}

Deno.test("fetchLock() never runs the handler when Redis refuses the user (NOPERM)", async () => {
  await using server = await startRedis();
  const url = `redis://u:secret@${server.hostname}:${server.port}`;
  const rules = ["reset", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval"];
  await server.command("ACL", "SETUSER", "u", ...rules);
  const { client, close } = await openRedisClient("node-redis", url);
  assertEquals(await serve(client), ["true", "500", "true", "500"]);
  await close();
});

Deno.test("fetchLock() never runs the handler when Redis refuses the password (WRONGPASS)", async () => {
  await using server = await startRedis();
  await server.command("ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all");
  await server.command("ACL", "SETUSER", "default", "off");
  const url = `redis://u:wrong@${server.hostname}:${server.port}`;
  const { client, close } = await openRedisClient("ioredis", url);
  assertEquals(await serve(client), ["true", "500", "true", "500"]);
  await close();
});

type Start = (handle: () => Promise<unknown>, options: HoldOptions) => Serve;

const SERVERS: Record<string, Start> = {
  "fetchLock": (handle, options) =>
    fetchApi(() => handle().then(() => new Response("done")), options),
  "koaLock": (handle, options) => koa(() => handle().then(() => "done"), options),
  "expressLock": (handle, options) =>
    express5((res) => handle().then(() => res.send("done")), options),
  "fastifyLock": (handle, options) => fastify(() => handle().then(() => "done"), options),
};

for (const [name, start] of Object.entries(SERVERS)) {
  Deno.test(`${name}() reports a release that Redis refuses`, async () => {
    await using server = await startRedis();
    const url = `redis://u:secret@${server.hostname}:${server.port}`;
    await server.command("ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all");
    const { client, close } = await openRedisClient("node-redis", url);
    const locks = new RedisLock(client, { ttlMs: LONG_TTL_MS });
    const errors: unknown[] = [];
    const loseRight = () => server.command("ACL", "SETUSER", "u", "-evalsha", "-eval");
    const onError = (error: unknown) => void errors.push(error);
    const serving = await start(loseRight, { onError })(locks);
    const response = await fetch(serving.url);
    assertEquals([response.status, await response.text()], [200, "done"]);
    await waitUntil("it is reported", () => errors.length === 1);
    assertEquals(errors[0] instanceof LockSetupError, true);
    await serving.stop();
    await locks[Symbol.asyncDispose]();
    await close();
  });
}
