/**
 * The number of commands that waiters cost the server.
 */
import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { say } from "../../testing/processes/figures.ts";
import { onlyFencesLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { startWorker, type Worker } from "../../testing/processes/workers.ts";
import { LONG_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

const PROCESSES = 4;
const TTL_MS = LONG_TTL_MS;
/** How long commands are counted: as many periods of the heartbeat as fit into the time of a test. */
const IDLE_MS = 3_000;
const BOUND_MS = LONG_BOUND_MS;
/** Fewer commands than this in half a second: nobody asks but the heartbeats. */
const SETTLED = 20;
/** The bound of the cost of waiting itself. */
const COMMANDS_PER_SECOND = 5;
/** The soak runs the full figure. */
const GRANTS = Deno.env.get("HOLDFAST_SOAK") ? 50_000 : 600;

function start(server: RedisServer, waiters: number): Worker[] {
  const spec = {
    strategy: "redis",
    client: "node-redis",
    url: server.url,
    keyPrefix: "lock:",
    ttlMs: TTL_MS,
  } as const;
  return Array.from(
    { length: PROCESSES },
    () => startWorker({ spec, name: "n", waiters: waiters / PROCESSES, aborts: false, seed: 1 }),
  );
}

/** How many commands the clients have sent so far, without those of the observer. */
async function commands(server: RedisServer): Promise<number> {
  const info = String(await server.command("INFO", "commandstats"));
  const [evalsha, plain] = ["evalsha", "eval"].map((name) =>
    Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, "m").exec(info)?.[1] ?? 0)
  );
  return evalsha! + plain!;
}

Deno.test("RedisLock sends at most five commands a second for a thousand waiters of a held lock", async () => {
  await using server = await startRedis();
  const keys = lockKeys("lock:", "n");
  const client = await openRedisClient("node-redis", server.url);
  await using lock = new RedisLock(client.client);
  const held = await lock.acquire("n");
  const workers = start(server, 1_000);
  try {
    await waitUntil("all wait", async () => {
      return await queueLength(server.command, keys) === 1_000;
    }, BOUND_MS);
    await waitUntil("all inboxes are proven", async () => {
      return (await provenInboxes(server.command, keys.waiters)).length === PROCESSES;
    }, BOUND_MS);
    for (let count = Infinity; count >= SETTLED;) {
      const before = await commands(server);
      await pause(500);
      count = await commands(server) - before;
    }
    const [before, sinceMs] = [await commands(server), performance.now()];
    // No condition: a rate is a number per time.
    await pause(IDLE_MS);
    const count = await commands(server) - before;
    const perSecond = count / ((performance.now() - sinceMs) / 1_000);
    say(`1,000 waiters: ${perSecond.toFixed(2)} commands a second`);
    assertLessOrEqual(perSecond, COMMANDS_PER_SECOND);
    assert(count > 0, "they wait");
    await held.release();
    const served = workers.map((worker) => worker.finish());
    assertEquals(await Promise.all(served), [0, 0, 0, 0]);
    const grants = workers.flatMap(({ grants }) => grants);
    assert(grants.length >= 1_000, "everybody was served");
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
    await lock[Symbol.asyncDispose]();
    await client.close();
  }
  await onlyFencesLeft(server, TTL_MS);
});

Deno.test("RedisLock sends two commands per cycle under contention", async () => {
  await using server = await startRedis();
  const startMs = performance.now();
  const workers = start(server, 48);
  const grants = () => workers.reduce((sum, worker) => sum + worker.grants.length, 0);
  try {
    await waitUntil("enough were granted", () => grants() >= GRANTS, 5 * BOUND_MS);
    for (const worker of workers) assertEquals(await worker.finish(), 0);
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  const waiting = COMMANDS_PER_SECOND * (performance.now() - startMs) / 1_000;
  const sent = await commands(server);
  say(`${grants()} grants, ${(sent / grants()).toFixed(4)} commands each`);
  assertLessOrEqual(sent - waiting, 2.05 * grants());
  await onlyFencesLeft(server, TTL_MS);
});
