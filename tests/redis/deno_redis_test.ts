/**
 * The deno-redis adapter, whose client repeats commands without an event, and opens connections again
 * that were closed while it reconnected.
 */
import { assert, assertEquals } from "@std/assert";
import { denoRedis } from "../../redis/clients/deno_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { TOMBSTONE_MS } from "../../redis/protocol/ask.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { within } from "../../testing/conformance/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { connectLike } from "../../testing/redis/deno_redis_like.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";

const NAMES = ["deno-redis-like", "deno-redis-like-eventless"] as const;

/** Longer than `commandTimeoutMs`, by default 1 s, after which the adapter drops the connection. */
const OUTAGE_MS = 1_200;

function urlOf({ hostname, port }: FaultProxy): string {
  return `redis://${hostname}:${port}`;
}

/** Resolves when the server has answered the command that checks its memory settings. */
function memoryChecked(proxy: FaultProxy): Promise<void> {
  return new Promise((resolve) => {
    proxy.onReply = (chunk) => {
      if (new TextDecoder().decode(chunk).includes("maxmemory_policy:")) resolve();
      return "pass";
    };
  });
}

/** How many scripts the server was asked to run. */
async function scriptCalls(server: RedisServer): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]);
}

/** Swallows the next reply, and breaks its connection: the client sends its command again. */
function loseNextReply(proxy: FaultProxy): void {
  proxy.onReply = () => {
    proxy.onReply = undefined;
    setTimeout(() => proxy.cutAll(), 50);
    return "drop";
  };
}

for (const name of NAMES) {
  Deno.test(`${name}: Lease.release() returns true when its reply is lost`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    try {
      await using lock = new RedisLock(client, { ttlMs: 60_000 });
      const checked = memoryChecked(proxy);
      const lease = await lock.acquire("n");
      await checked;
      loseNextReply(proxy);
      assertEquals(await within("the release is answered", lease.release()), true);
      const run = lock.request("n", () => {
        loseNextReply(proxy);
        return "done";
      });
      assertEquals(await within("the request is over", run), "done");
    } finally {
      await close();
    }
  });

  Deno.test(`${name}: Lease.release() returns false when the lock was lost before`, async () => {
    await using server = await startRedis();
    const { client, close } = await openRedisClient(name, server.url);
    try {
      await using lock = new RedisLock(client, { ttlMs: 60_000 });
      const lease = await lock.acquire("n");
      await server.command("SET", "lock:n", "somebody else");
      assertEquals(await within("the release is answered", lease.release()), false);
    } finally {
      await close();
    }
  });

  Deno.test(`${name}: a connection that is dropped during an outage is not left open`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    const [a, b] = [new RedisLock(client), new RedisLock(client)];
    const lease = await a.acquire("n");
    const waiter = b.acquire("n"); // subscribes
    await waitUntil("the waiter listens", async () => {
      return (await server.command("PUBSUB", "CHANNELS") as string[]).length === 1;
    });
    await proxy.refuse(true);
    proxy.cutAll();
    const released = lease.release();
    await pause(OUTAGE_MS);
    await proxy.refuse(false);
    assert(await within("the release is answered", released));
    await (await within("the waiter is granted", waiter)).release();
    await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()]);
    await close();
    await waitUntil("no connection is left", () => proxy.connections === 0, 5_000);
    await pause(500); // none is opened again
    const list = String(await server.command("CLIENT", "LIST"));
    assertEquals(list.trim().split("\n").length, 1, list); // the observer's own
  });

  Deno.test(`${name}: a lock that is disposed during an outage leaves no connection open`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const { client, close } = await openRedisClient(name, urlOf(proxy));
    const [a, b] = [new RedisLock(client), new RedisLock(client, { disposeTimeoutMs: 200 })];
    await a.acquire("n");
    b.acquire("n").catch(() => {}); // subscribes
    await waitUntil("the waiter listens", async () => {
      return (await server.command("PUBSUB", "CHANNELS") as string[]).length === 1;
    });
    await proxy.refuse(true);
    proxy.cutAll();
    await pause(100);
    await b[Symbol.asyncDispose]();
    await proxy.refuse(false);
    await a[Symbol.asyncDispose]();
    await close();
    await pause(1_000); // both connections may be opened again meanwhile
    await waitUntil("no connection is left", () => proxy.connections === 0, 5_000);
  });
}

Deno.test("denoRedis() has another epoch at each read when the client reports no events", async () => {
  await using server = await startRedis();
  for (const hasEvents of [true, false]) {
    const client = denoRedis(() => connectLike(server.url, { hasEvents }));
    await client.send("PING", [], "");
    if (hasEvents) assertEquals(client.epoch, client.epoch);
    else assertEquals(new Set([client.epoch, client.epoch]).size, 2);
    await client.close!();
  }
});

Deno.test("RedisLock sends two commands per cycle when the client reports no events, and sweeps its tombstones", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("deno-redis-like-eventless", server.url);
  try {
    await using lock = new RedisLock(client);
    const cycles = async (count: number) => {
      for (let i = 0; i < count; i++) await (await lock.acquire("n")).release();
    };
    await cycles(1);
    const before = await scriptCalls(server);
    await cycles(200);
    assertEquals(await scriptCalls(server) - before, 2 * 200);
    await pause(TOMBSTONE_MS + 100);
    await cycles(5); // each leave sweeps some
    const { queue, waiters } = lockKeys("lock:", "n");
    const left = 5 + 1; // the first ask had no time limit, so its tombstone lasts longer
    assertEquals(await server.command("ZCARD", queue), left);
    assertEquals(await server.command("HLEN", waiters), left);
  } finally {
    await close();
  }
});

Deno.test("RedisLock.tryAcquire() costs one more command when the client reports no events and another owner holds the lock", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("deno-redis-like-eventless", server.url);
  try {
    await using lock = new RedisLock(client);
    await using _lease = await lock.acquire("n");
    const before = await scriptCalls(server);
    for (let i = 0; i < 20; i++) assertEquals(await lock.tryAcquire("n"), null);
    await waitUntil("each has left", async () => await scriptCalls(server) - before === 2 * 20);
  } finally {
    await close();
  }
});

Deno.test("denoRedis() counts a reconnect that only 'connect' and 'ready' report", async () => {
  await using server = await startRedis();
  // As deno-redis 0.37 does: no "reconnecting" before it repeats a command.
  const client = denoRedis(async () => {
    const connection = await connectLike(server.url);
    return {
      ...connection,
      addEventListener(event, listener) {
        if (event !== "reconnecting") connection.addEventListener!(event, listener);
      },
    };
  });
  await client.send("PING", [], "");
  const { epoch } = client;
  await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await client.send("PING", [], "");
  assert(client.epoch !== epoch);
  await client.close!();
});
