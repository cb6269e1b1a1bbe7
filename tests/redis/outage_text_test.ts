/**
 * The text of a `LockUnavailableError` names the cause, as far as the client's rejections tell it.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Redis } from "ioredis";
import { createClient, type RedisClientOptions } from "redis";
import { LockSetupError, LockUnavailableError } from "../../core/contract/errors.ts";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { ioredis } from "../../redis/clients/ioredis.ts";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { endIoredis } from "../../testing/redis/clients.ts";
import { connectLike } from "../../testing/redis/deno_redis_like.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";

const REFUSED = "the connection was refused (ECONNREFUSED). Is the server running?";
const LOST = /: the connection was lost(?: \(E\w+\))?\. Is the server running\?$/;

/** The text behind `Cannot reach Redis for lock "orders:42": `, after a call that must fail. */
async function causeOf(client: RedisClient, unavailableAfterMs = 300): Promise<string> {
  await using lock = new RedisLock(client, { unavailableAfterMs, disposeTimeoutMs: 100 });
  const error = await assertRejects(() => lock.acquire("orders:42"), LockUnavailableError);
  const start = 'Cannot reach Redis for lock "orders:42": ';
  assertStringIncludes(error.message, start);
  return error.message.slice(start.length);
}

function isRefused(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === "ECONNREFUSED";
}

async function openNodeRedis(url: string, options: RedisClientOptions = {}) {
  const client = createClient({ url, ...options }).on("error", () => {});
  await client.connect();
  return client;
}

async function openIoredis(url: string, options: { enableOfflineQueue?: boolean } = {}) {
  const client = new Redis(url, { disconnectTimeout: 1, ...options }).on("error", () => {});
  await waitUntil("the client connects", () => Promise.resolve(client.status === "ready"));
  return client;
}

/** Kills the server for a test. Afterwards it runs again: reconnecting clients end cleanly then. */
async function whileStopped(server: RedisServer, test: () => Promise<void>): Promise<void> {
  await server.kill("SIGKILL");
  try {
    await test();
  } finally {
    await server.restart();
  }
}

for (const hasEvents of [true, false]) {
  const what = hasEvents ? "deno-redis" : "deno-redis without events";
  Deno.test(`RedisLock.acquire() names ECONNREFUSED when ${what} cannot connect`, async () => {
    await using server = await startRedis();
    const client = denoRedis(() => connectLike(server.url, { hasEvents }));
    await client.send("PING", [], "");
    await whileStopped(server, async () => {
      assertEquals(await causeOf(client, scaled(1_500)), REFUSED);
      assertEquals(isRefused(client.connectionError), true);
      assertEquals(await causeOf(client, scaled(1_500)), REFUSED);
    });
    await client.send("PING", [], "");
    assertEquals(client.connectionError, undefined);
    await client.close!();
  });
}

Deno.test("RedisLock.acquire() names ECONNREFUSED when node-redis has no offline queue", async () => {
  await using server = await startRedis();
  const client = await openNodeRedis(server.url, { disableOfflineQueue: true });
  await whileStopped(server, async () => {
    await waitUntil("the client is refused", () => isRefused(nodeRedis(client).connectionError));
    assertEquals(await causeOf(nodeRedis(client)), REFUSED);
  });
  await waitUntil("the client is back", () => Promise.resolve(client.isReady));
  client.destroy();
});

Deno.test("RedisLock.acquire() names ECONNREFUSED when ioredis has no offline queue", async () => {
  await using server = await startRedis();
  const client = await openIoredis(server.url, {
    enableOfflineQueue: false,
  });
  await whileStopped(server, async () => {
    await waitUntil("the client is refused", () => isRefused(ioredis(client).connectionError));
    assertEquals(await causeOf(ioredis(client)), REFUSED);
  });
  await waitUntil("the client is back", () => Promise.resolve(client.status === "ready"));
  await endIoredis(client);
});

Deno.test("RedisLock.acquire() names ECONNREFUSED when the client keeps its commands", async () => {
  await using server = await startRedis();
  const [node, io] = [await openNodeRedis(server.url), await openIoredis(server.url)];
  const clients = [nodeRedis(node), ioredis(io)];
  await whileStopped(server, async () => {
    for (const client of clients) {
      await waitUntil("the client is refused", () => isRefused(client.connectionError));
      const unavailable = { unavailableAfterMs: 300, disposeTimeoutMs: 100 };
      await using lock = new RedisLock(client, unavailable);
      const error = await assertRejects(() => lock.acquire("n"), LockUnavailableError);
      assertEquals(error.message, `Cannot reach Redis for lock "n": ${REFUSED}`);
      assertEquals(isRefused(error.cause), true);
    }
  });
  await waitUntil("both are back", () => node.isReady && io.status === "ready");
  for (const client of clients) assertEquals(client.connectionError, undefined);
  node.destroy();
  await endIoredis(io);
});

Deno.test("RedisLock.acquire() says how long nothing came when the server is silent", async () => {
  await using server = await startRedis();
  const node = await openNodeRedis(server.url);
  const io = await openIoredis(server.url);
  const silence = "it has not answered in time for 300 ms";
  await server.pause();
  assertEquals(await causeOf(nodeRedis(node)), silence);
  assertEquals(await causeOf(ioredis(io)), silence);
  await server.resume();
  node.destroy();
  await endIoredis(io);
});

Deno.test("RedisLock.acquire() names the lost connection when the server dies during a request", async () => {
  await using server = await startRedis();
  const client = await openNodeRedis(server.url);
  await server.command("CLIENT", "PAUSE", "60000", "WRITE");
  await using lock = new RedisLock(nodeRedis(client), { unavailableAfterMs: 1_000 });
  const error = assertRejects(() => lock.acquire("n"), LockUnavailableError);
  await whileStopped(server, async () => {
    assertEquals(LOST.test((await error).message), true, (await error).message);
  });
  await waitUntil("the client is back", () => Promise.resolve(client.isReady));
  client.destroy();
});

Deno.test("RedisLock.acquire() says that the client is closed", async () => {
  await using server = await startRedis();
  const node = await openNodeRedis(server.url);
  node.destroy();
  const io = await openIoredis(server.url);
  await io.quit();
  for (const client of [nodeRedis(node), ioredis(io)]) {
    await using lock = new RedisLock(client);
    const error = await assertRejects(() => lock.acquire("n"), LockSetupError);
    assertEquals(
      error.message,
      'Cannot use Redis for lock "n": the client is not connected. Connect it before the first call, ' +
        "close it after the locks, and do not let it give up reconnecting",
    );
  }
});

Deno.test("RedisLock.acquire() names a refusal of the server, and no password", async () => {
  await using server = await startRedis();
  const client = await openNodeRedis(server.url);
  await server.command("CONFIG", "SET", "requirepass", "verysecret");
  await using lock = new RedisLock(nodeRedis(client), { unavailableAfterMs: CONDITION_BOUND_MS });
  const other = await openIoredis(server.url.replace("redis://", "redis://:verysecret@"));
  await other.call("ACL", "SETUSER", "default", "-evalsha");
  const error = await assertRejects(() => lock.acquire("n"), LockSetupError);
  assertEquals(
    error.message,
    'Cannot use Redis for lock "n": the user lacks a permission (NOPERM). Check its ACL',
  );
  await endIoredis(other);
  client.destroy();
});
