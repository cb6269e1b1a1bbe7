/**
 * Clients that resend commands automatically, and links slower than the time limit of an ask.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/wait.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { Gate, gated } from "../../testing/redis/gated_client.ts";

for (const takesIt of [false, true]) {
  const next = takesIt ? "another owner has the lock" : "the lock is free";
  Deno.test(`Lease.release() returns true when the client sends it twice and ${next}`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const { client, close } = await openRedisClient("ioredis", url);
    const near = await openRedisClient("node-redis", server.url);
    try {
      await using lock = new RedisLock(client, { ttlMs: 60_000 });
      await using other = new RedisLock(near.client, { ttlMs: 60_000 });
      await (await lock.acquire("n")).release();
      await waitUntil("the memory check is over", async () => {
        return /cmdstat_info:calls=[2-9]/.test(
          String(await server.command("INFO", "commandstats")),
        );
      });
      const heirs: Promise<unknown>[] = [];
      const run = lock.request("n", () => {
        proxy.onReply = () => {
          proxy.onReply = undefined;
          if (takesIt) heirs.push(other.acquire("n"));
          Promise.all(heirs).then(() => setTimeout(() => proxy.cutAll(), 50));
          return "drop";
        };
        return "done";
      });
      assertEquals(await within("it is over", run), "done");
      const lease = takesIt ? await heirs[0] : await other.acquire("n");
      (lease as Awaited<ReturnType<typeof other.acquire>>).throwIfLost();
    } finally {
      await close();
      await near.close();
    }
  });
}

Deno.test("RedisLock rejects with LockUnavailableError when every ask reaches the server after its time limit", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  try {
    await using lock = new RedisLock(client, { unavailableAfterMs: 1_500 });
    await (await lock.acquire("n")).release();
    proxy.onRequest = () => ({ delayMs: 1_200 });
    for (const call of [() => lock.acquire("n"), () => lock.tryAcquire("n")]) {
      await within("it gives up", assertRejects(call, LockUnavailableError), 10_000);
    }
    proxy.onRequest = undefined;
  } finally {
    await close();
  }
});

Deno.test("RedisLock does not resend a script for a call that was aborted", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const { client: held, gates } = gated(client);
    await using lock = new RedisLock(held, { unavailableAfterMs: 200 });
    const gate = new Gate();
    gates.onRequest = gate.first("ask");
    await assertRejects(() => lock.acquire("n"), LockUnavailableError);
    gate.open(); // the server does not know the script yet
    await waitUntil("it has left", async () => {
      return gates.sent.some(({ script }) => script === "leave") &&
        await server.command("EXISTS", "lock:n") === 0;
    });
    await (await lock.acquire("other")).release();
    const again = gates.sent.filter(({ copy }) => copy[0] === "EVAL" && copy[3] === "lock:n");
    assertEquals(again.map(({ script }) => script), ["leave"]);
  } finally {
    await close();
  }
});

Deno.test("RedisLock.acquire() keeps waiting when another call gives up while its own ask is unanswered", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const { client: slow, gates } = gated(client);
    await using lock = new RedisLock(slow, { unavailableAfterMs: 6_000, ttlMs: 60_000 });
    const held = await lock.acquire("n");
    const waiting = [lock.acquire("n"), lock.acquire("n")];
    for (const call of waiting) call.catch(() => {}); // they are awaited later
    const keys = lockKeys("lock:", "n");
    await waitUntil("two wait", async () => await queueLength(server.command, keys) === 2);
    // Both ask once more when the inbox has opened. From then on only the first asks, for both.
    await waitUntil("one asks for both", () => {
      const owners = gates.sent.filter(({ script }) => script === "ask").map(({ args }) => args[0]);
      const waiters = [...new Set(owners)].slice(1); // the holder asked first
      const haveAskedTwice = waiters.length === 2 &&
        waiters.every((waiter) => owners.filter((owner) => owner === waiter).length >= 2);
      return haveAskedTwice && owners.at(-1) === owners.at(-2);
    });
    const [asked, answers] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    gates.onReply = ({ script }) => {
      if (script !== "ask") return;
      asked.resolve();
      return answers.promise;
    };
    await asked.promise;
    await pause(3_000);
    gates.gap(); // now the other waiter asks, too
    await assertRejects(() => waiting[0]!, LockUnavailableError);
    answers.resolve();
    gates.onReply = undefined;
    await held.release();
    const lease = await within("it is granted", waiting[1]!);
    lease.throwIfLost();
  } finally {
    await close();
  }
});

Deno.test("RedisLock disposal waits for a release whose connection broke", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  try {
    const lock = new RedisLock(client, { ttlMs: 60_000, disposeTimeoutMs: 10_000 });
    const lease = await lock.acquire("n");
    proxy.onRequest = () => (proxy.onRequest = undefined, "cut");
    const released = lease.release();
    await lock[Symbol.asyncDispose]();
    assertEquals(await released, true);
    assertEquals(await server.command("EXISTS", "lock:n"), 0);
  } finally {
    await close();
  }
});
