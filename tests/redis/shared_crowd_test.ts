/**
 * Many readers behind a writer: all are admitted together, in bounded calls, however the lock becomes free.
 */
import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { LEAVE } from "../../redis/protocol/scripts.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { leaveArguments, NO_LIMIT, SEARCHING } from "../../redis/protocol/wire.ts";
import { processCpuTimeMs } from "../../testing/core/cpu_time.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { say } from "../../testing/processes/figures.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength, sharedHolders } from "../../testing/redis/queue_reader.ts";
import { scriptCosts } from "../../testing/redis/growth/growth.ts";
import { Crowd, isFinished, leaveOf } from "../../testing/redis/growth/scripted_crowd.ts";
import { onlyFencesLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { startWorker } from "../../testing/processes/workers.ts";
import { LONG_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** The soak runs the full figures. */
const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const READERS = IS_SOAK ? 10_000 : 300;
const TTL_MS = LONG_TTL_MS;
const BOUND_MS = LONG_BOUND_MS;
/**
 * What a call costs the server at most: 16 commands for each of 64 grants, and what comes before. Its time on a
 * clock says nothing: the server waits for a core while the clients that it has notified compute.
 */
const MAX_CALL = { commands: 65 * 16, cpuMs: scaled(10) };
const KEYS = lockKeys("lock:", "n");

/** How many scripts have run so far. */
async function scripts({ command }: RedisServer): Promise<number> {
  const info = String(await command("INFO", "commandstats"));
  const calls = (name: string) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, "m").exec(info)?.[1] ?? 0);
  return calls("evalsha") + calls("eval");
}

/** A writer that holds the lock, and readers of another instance that wait for it. */
async function open(server: RedisServer) {
  const clients = [
    await openRedisClient("node-redis", server.url),
    await openRedisClient("node-redis", server.url),
  ];
  const [near, far] = clients.map(({ client }) => new RedisLock(client, { ttlMs: TTL_MS }));
  const writer = await near!.acquire("n");
  const readers = Array.from({ length: READERS }, () => far!.acquire("n", { mode: "shared" }));
  await waitUntil("all wait", async () => {
    return await queueLength(server.command, KEYS) === READERS;
  }, BOUND_MS);
  await waitUntil("their inbox is proven", async () => {
    return (await provenInboxes(server.command, KEYS.waiters)).length === 1;
  }, BOUND_MS);
  return {
    ...{ writer, near: near!, far: far!, readers: Promise.all(readers) },
    async [Symbol.asyncDispose]() {
      for (const lock of [near!, far!]) await lock[Symbol.asyncDispose]();
      for (const { close } of clients) await close();
    },
  };
}

async function releaseAll(leases: Lease[]): Promise<void> {
  for (const lease of leases) lease.throwIfLost();
  await Promise.all(leases.map((lease) => lease.release()));
}

const WAYS: [string, (server: RedisServer, writer: Lease) => Promise<void>][] = [
  ["its release", async (_, writer) => void await writer.release()],
  ["the loss of its key", async ({ command }) => void await command("DEL", KEYS.lock)],
  ["the end of its TTL", async ({ command }) => void await command("PEXPIRE", KEYS.lock, 1)],
  ["its death after the first batch", async ({ command }, writer) => {
    const value = String(await command("GET", KEYS.lock));
    assert(value.startsWith(writer.ownerId));
    const args = leaveArguments(value, 0, true, false);
    const { lock, queue, waiters, token } = KEYS;
    const reply = await command("EVAL", LEAVE.source, 4, lock, queue, waiters, token, ...args);
    assertEquals((reply as unknown[])[2], SEARCHING);
  }],
];

for (const [what, end] of WAYS) {
  Deno.test(`RedisLock admits ${READERS} readers behind a writer after ${what}`, async () => {
    await using server = await startRedis();
    {
      await using scene = await open(server);
      const startMs = performance.now();
      await end(server, scene.writer);
      const leases = await within("all readers are admitted", scene.readers, BOUND_MS);
      say(`${READERS} readers after ${what}: ${Math.round(performance.now() - startMs)} ms`);
      assertEquals((await scene.near.query("n")).holderCount, READERS);
      await releaseAll(leases);
      assertEquals(await scene.near.tryAcquire("n") === null, false);
    }
    await onlyFencesLeft(server, TTL_MS);
  });
}

Deno.test("RedisLock waits at disposal until the rest of an admission is over", async () => {
  await using server = await startRedis();
  {
    await using scene = await open(server);
    await scene.writer.release();
    await scene.near[Symbol.asyncDispose]();
    assertEquals(await queueLength(server.command, KEYS), 0);
    await releaseAll(await within("all readers are admitted", scene.readers, BOUND_MS));
  }
  await onlyFencesLeft(server, TTL_MS);
});

for (const inboxes of [1, 4]) {
  Deno.test(`Each call that admits some of ${READERS} readers in ${inboxes} processes costs the server at most ${MAX_CALL.commands} commands`, async () => {
    await using server = await startRedis();
    await using crowd = await Crowd.open(server, { waiters: READERS, inboxes, limit: NO_LIMIT });
    const call = leaveOf(crowd.holder);
    let [calls, commands, cpuMs, isOver] = [0, 0, 0, false];
    while (!isOver) {
      const before = await scriptCosts(server);
      const startMs = processCpuTimeMs(server.pid);
      const reply = await crowd.run(call);
      cpuMs = Math.max(cpuMs, processCpuTimeMs(server.pid) - startMs);
      commands = Math.max(commands, (await scriptCosts(server)).commands - before.commands);
      isOver = isFinished(call, reply);
      calls++;
    }
    const most = `${commands} commands, ${cpuMs.toFixed(1)} ms of CPU`;
    say(`${READERS} readers in ${inboxes} processes: ${calls} calls, the most expensive ${most}`);
    const [lock, queue] = crowd.keys as [string, string];
    assertEquals((await sharedHolders(server.command, { lock, queue })).length, READERS);
    assertLessOrEqual(commands, MAX_CALL.commands);
    if (IS_SOAK) assertLessOrEqual(cpuMs, MAX_CALL.cpuMs);
  });
}

for (const processes of [1, 4]) {
  Deno.test(`RedisLock admits ${READERS} readers in ${processes} processes with three commands for each`, async () => {
    await using server = await startRedis();
    const { client, close } = await openRedisClient("node-redis", server.url);
    const common = { url: server.url, keyPrefix: "lock:", ttlMs: TTL_MS };
    const spec = { strategy: "redis", client: "node-redis", ...common } as const;
    const work = { spec, name: "n", waiters: READERS / processes, isOnce: true, aborts: false };
    {
      await using lock = new RedisLock(client, { ttlMs: TTL_MS });
      const writer = await lock.acquire("n");
      const workers = Array.from({ length: processes }, (_, seed) => {
        return startWorker({ ...work, seed, modes: [{ mode: "shared" }] });
      });
      try {
        await waitUntil("all wait", async () => {
          return await queueLength(server.command, KEYS) === READERS;
        }, BOUND_MS);
        const [before, startMs] = [await scripts(server), performance.now()];
        await writer.release();
        const served = () => workers.reduce((sum, { grants }) => sum + grants.length, 0);
        await waitUntil("all were admitted", () => served() === READERS, BOUND_MS);
        const tookMs = Math.round(performance.now() - startMs);
        for (const worker of workers) assertEquals(await worker.finish(), 0);
        const perGrant = 1 + (await scripts(server) - before) / READERS; // each has asked once before
        say(
          `${READERS} readers in ${processes} processes: ${perGrant.toFixed(2)} commands each, ` +
            `${tookMs} ms`,
        );
        assertLessOrEqual(perGrant, 3.1);
      } finally {
        for (const worker of workers) await worker[Symbol.asyncDispose]();
      }
    }
    await close();
    await onlyFencesLeft(server, TTL_MS);
  });
}
