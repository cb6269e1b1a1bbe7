/**
 * A server that refuses the connection of an inbox: for a while, as it has no connections left, or until its
 * user is given the right to channels.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { nothingLeft } from "../../testing/redis/traces.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** By polls every 500 ms, 100 grants took 50 s. */
const SERVED_BOUND_MS = scaled(12_000);

async function inboxes({ command }: RedisServer): Promise<number> {
  return (await command("PUBSUB", "CHANNELS", "holdfast:1:inbox:*") as string[]).length;
}

async function clientCount({ command }: RedisServer): Promise<number> {
  return String(await command("CLIENT", "LIST")).trim().split("\n").length;
}

for (const client of ["node-redis", "ioredis", "deno-redis-like"] as const) {
  Deno.test(`${client}: RedisLock subscribes its inbox when Redis takes more clients again`, async () => {
    await using server = await startRedis();
    const { client: adapter, close } = await openRedisClient(client, server.url);
    const warnings: string[] = [];
    {
      await using lock = new RedisLock(adapter, { onWarning: (text) => warnings.push(text) });
      const held = await lock.acquire("n");
      await server.command("CONFIG", "SET", "maxclients", await clientCount(server));
      const refused = async () => {
        const stats = String(await server.command("INFO", "stats"));
        return Number(/^rejected_connections:(\d+)/m.exec(stats)![1]);
      };
      const waiting = lock.acquire("n");
      await waitUntil("its inbox is refused", async () => await refused() > 1);
      assertEquals(await inboxes(server), 0);
      await server.command("CONFIG", "SET", "maxclients", 10_000);
      await waitUntil("it listens", async () => await inboxes(server) === 1);
      await held.release();
      await (await within("it is granted", waiting)).release();
      assertEquals(warnings, []);
    }
    await close();
    await nothingLeft(server);
  });
}

Deno.test("RedisLock rejects with LockUnavailableError while Redis takes no more clients", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using lock = new RedisLock(client, { unavailableAfterMs: scaled(1_000) });
    await (await lock.acquire("n")).release();
    await server.command("CONFIG", "SET", "maxclients", 1);
    await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const error = await within("it is refused", lock.acquire("n").catch((error) => error));
    assertEquals(error.name, "LockUnavailableError");
    assertMatch(error.message, /it takes no more clients|the connection was lost|not answered/);
    await server.command("CONFIG", "SET", "maxclients", 10_000);
    await waitUntil("it is back", async () => {
      const lease = await lock.acquire("n").catch(() => null);
      await lease?.release();
      return lease !== null;
    });
  }
  await close();
  await nothingLeft(server);
});

Deno.test("RedisLock serves 100 waiters soon without the right to channels, and subscribes when it is given", async () => {
  await using server = await startRedis();
  const { command, hostname, port } = server;
  await command("ACL", "SETUSER", "u", "on", ">secret", "~*", "+@all", "resetchannels");
  const url = `redis://u:secret@${hostname}:${port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  const warnings: string[] = [];
  {
    const options = { ttlMs: LONG_TTL_MS, onWarning: (text: string) => void warnings.push(text) };
    await using lock = new RedisLock(client, options);
    const calls = Array.from({ length: 100 }, () => lock.request("n", () => {}));
    await within("all are served", Promise.all(calls), SERVED_BOUND_MS);
    await command("ACL", "SETUSER", "u", "allchannels");
    const held = await lock.acquire("n");
    const waiting = lock.acquire("n");
    await waitUntil("its inbox is open", async () => await inboxes(server) === 1);
    await held.release();
    await (await within("it is granted", waiting)).release();
    const told = warnings.filter((text) => text.includes("subscribe"));
    assertEquals(told.length, 1);
    assertMatch(told[0]!, /so waiters poll\. Check the user's ACL: NOPERM/);
  }
  await close();
  await nothingLeft(server);
});

// deno-redis subscribes again by itself, and does not say what it is answered.
for (const name of ["node-redis", "ioredis"] as const) {
  Deno.test(`${name}: RedisLock says so and polls when the right to channels is taken away, and subscribes when it is given again`, async () => {
    await using server = await startRedis();
    const { command, hostname, port } = server;
    await command("ACL", "SETUSER", "u", "on", ">secret", "~*", "+@all", "allchannels");
    const { client, close } = await openRedisClient(name, `redis://u:secret@${hostname}:${port}`);
    const warnings: string[] = [];
    {
      const options = { ttlMs: LONG_TTL_MS, onWarning: (text: string) => void warnings.push(text) };
      await using lock = new RedisLock(client, options);
      const held = await lock.acquire("n");
      const calls = Array.from({ length: 30 }, () => lock.request("n", () => {}));
      const served = Promise.all(calls);
      await waitUntil("it listens", async () => await inboxes(server) === 1);
      await command("ACL", "SETUSER", "u", "resetchannels"); // which ends its subscribers
      const told = () => warnings.filter((text) => text.includes("so waiters poll")).length;
      await waitUntil("it says so", () => told() === 1);
      await held.release();
      await within("all are served", served, SERVED_BOUND_MS);
      await command("ACL", "SETUSER", "u", "allchannels");
      await waitUntil("it listens again", async () => {
        await lock.request("n", () => lock.tryAcquire("n", { waitMs: 1 }));
        return await inboxes(server) === 1;
      });
      assertEquals(told(), 1);
    }
    await close();
    await nothingLeft(server);
  });

  Deno.test(`${name}: RedisLock says so and polls when its inbox may not log in any more, as the password is another one`, async () => {
    await using server = await startRedis();
    const { command, hostname, port } = server;
    await command("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all");
    const { client, close } = await openRedisClient(name, `redis://u:secret@${hostname}:${port}`);
    const warnings: string[] = [];
    {
      const options = { ttlMs: LONG_TTL_MS, onWarning: (text: string) => void warnings.push(text) };
      await using lock = new RedisLock(client, options);
      const held = await lock.acquire("n");
      await command("ACL", "SETUSER", "u", "resetpass", ">other"); // which ends no connection
      const waiting = lock.acquire("n");
      await waitUntil("it says so", () => warnings.length > 0);
      assertMatch(warnings[0]!, /so waiters poll: WRONGPASS/);
      await held.release();
      await (await within("it is granted", waiting)).release();
    }
    await close();
    await nothingLeft(server);
  });
}
