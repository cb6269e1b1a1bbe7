/**
 * Disposal: a kept lock is renewed; with `disposeTimeoutMs: 0` the releases are sent, and no answer is
 * awaited.
 */
import { assertEquals, assertRejects } from "@std/assert";
import process from "node:process";
import { HeldLeases } from "../../redis/held_leases.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { granted, ScriptedClient } from "../../testing/redis/scripted_client.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

const NAMES = ["a", "b", "c"];

for (
  const name of ["node-redis", "ioredis", "deno-redis-like", "deno-redis-like-eventless"] as const
) {
  for (const isAnswered of [true, false]) {
    const when = isAnswered ? "" : " when the server does not answer";
    Deno.test(`${name}: RedisLock with disposeTimeoutMs 0 sends all releases at disposal${when}`, async () => {
      await using server = await startRedis();
      await using proxy = startProxy(server);
      const url = `redis://${proxy.hostname}:${proxy.port}`;
      const { client, close } = await openRedisClient(name, url);
      const locks = new RedisLock(client, { ttlMs: LONG_TTL_MS, disposeTimeoutMs: 0 });
      // The first release on a server sends its script, after the server has said that it does not know it.
      await locks.request("first", () => {});
      const leases = await Promise.all(NAMES.map((name) => locks.acquire(name)));
      if (!isAnswered) proxy.onReply = () => "drop";
      await within("it is disposed", locks[Symbol.asyncDispose]());
      for (const lease of leases) assertEquals(lease.signal.reason.reason, "disposed");
      await waitUntil("the server has got the releases", async () => {
        return await server.command("EXISTS", ...NAMES.map((name) => `lock:${name}`)) === 0;
      });
      proxy.onReply = undefined;
      proxy.cutAll();
      await close();
    });
  }
}

Deno.test("RedisLock renews a lock that it keeps at disposal again and again", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using others = new RedisLock(client);
    const locks = new RedisLock(client, { ttlMs: KEPT_TTL_MS, disposeTimeoutMs: LONG_TTL_MS });
    const lease = await locks.acquire("n");
    const disposed = locks[Symbol.asyncDispose]();
    let [leftMs, renewals] = [0, -1];
    await waitUntil("it was renewed twice", async () => {
      assertEquals(await others.tryAcquire("n"), null);
      const beforeMs = leftMs;
      leftMs = Number(await server.command("PTTL", "lock:n"));
      if (leftMs > beforeMs) renewals++;
      return renewals >= 2;
    });
    assertEquals(await lease.release(), true);
    await within("disposal ends", disposed);
    await using next = await others.tryAcquire("n");
    assertEquals(next?.name, "n");
  }
  await close();
});

Deno.test("RedisLock keeps no timer after disposal for a call whose ask is not answered", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const options = { disposeTimeoutMs: 0, unavailableAfterMs: LONG_TTL_MS };
  const locks = new RedisLock(client, options);
  await locks.request("first", () => {});
  let isAsked = false;
  proxy.onReply = () => {
    isAsked = true;
    return "drop";
  };
  const call = locks.acquire("n").catch((error) => error.name);
  await waitUntil("the server has executed the ask", () => isAsked);
  await within("it is disposed", locks[Symbol.asyncDispose]());
  assertEquals(await call, "AbortError");
  assertEquals(timers(), before);
  proxy.onReply = undefined;
  proxy.cutAll();
  await close();
});

for (const name of ["node-redis", "ioredis"] as const) {
  Deno.test(`${name}: RedisLock ends at disposal a subscription that the server does not answer`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const { client, close } = await openRedisClient(name, url);
    const locks = new RedisLock(client, { ttlMs: LONG_TTL_MS, disposeTimeoutMs: 100 });
    await server.command("SET", "lock:n", "of another process");
    const onWait = () => void (proxy.onReply = () => "drop"); // before it subscribes
    const refused = assertRejects(() => locks.acquire("n", { onWait }), DOMException);
    await waitUntil("it connects in order to subscribe", () => proxy.connections === 2);
    await locks[Symbol.asyncDispose]();
    await refused;
    await waitUntil("only the client's own connection is left", () => proxy.connections === 1);
    proxy.onReply = undefined;
    proxy.cutAll();
    await close();
  });
}

for (const name of ["node-redis", "ioredis", "deno-redis-like"] as const) {
  Deno.test(`${name}: RedisClient.subscribe() leaves no connection when its signal aborts while it connects`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const { client, close } = await openRedisClient(name, url);
    await client.send("PING", [], "");
    for (let turns = 0; turns < 20; turns++) {
      const end = new AbortController();
      const ended = client.subscribe!("channel", () => {}, () => {}, end.signal);
      for (let i = 0; i < turns; i++) await new Promise(setImmediate);
      end.abort();
      await within("it ends", ended.catch(() => {}));
    }
    await waitUntil("only the client's own connection is left", () => proxy.connections === 1);
    await close();
  });
}

Deno.test("RedisLock forgets its leases on its client at disposal, although their releases are not answered", async () => {
  const client = new ScriptedClient();
  const locks = new RedisLock(client, { disposeTimeoutMs: 0 });
  const call = locks.acquire("n");
  const { args: [value], answer } = client.take("n");
  answer(granted(1));
  await call;
  const leases = new HeldLeases(client);
  assertEquals(leases.has("lock:n", value!), true);
  await locks[Symbol.asyncDispose]();
  assertEquals(leases.has("lock:n", value!), false);
});
