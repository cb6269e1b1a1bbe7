/**
 * Processes that are killed or frozen while they wait for a lock, or hold it.
 */
import { assert, assertEquals, assertLess } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { type OpenClient, openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { median, say } from "../../testing/processes/figures.ts";
import { untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { listeners, nothingLasts, provenInboxes } from "../../testing/redis/traces.ts";
import { overlaps, startWorker, type Worker } from "../../testing/processes/workers.ts";
import { FAULT_TTL_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** The soak runs the full figure. */
const ROUNDS = Deno.env.get("HOLDFAST_SOAK") ? 9 : 3;
const CLAIM_MS = 3_000;
/** More than a claim takes on any machine, and much less than one for each of 100 waiters. */
const CLAIM_BOUND_MS = scaled(30_000);
const TTL_MS = LONG_TTL_MS;

interface Scene extends AsyncDisposable {
  readonly name: string;
  readonly server: RedisServer;
  readonly holder: RedisLock;
  readonly next: RedisLock;
  readonly worker: Worker;
  /** How many waiters the process has. */
  waiting(): Promise<number>;
  readonly waitersKey: string;
}

interface SceneOptions {
  readonly waiters: number;
  readonly ttlMs?: number;
  readonly holdMs?: number;
  /** How the process logs in. */
  readonly url?: string;
}

/** A process with waiters on a server; two instances in this process. */
async function open(
  server: RedisServer,
  { waiters, ttlMs = TTL_MS, holdMs, url = server.url }: SceneOptions,
): Promise<Scene> {
  const clients: OpenClient[] = [
    await openRedisClient("node-redis", server.url),
    await openRedisClient("ioredis", server.url),
  ];
  const [holder, next] = clients.map(({ client }) => new RedisLock(client, { ttlMs }));
  const name = crypto.randomUUID();
  const keys = lockKeys("lock:", name);
  const common = { client: "node-redis", url, keyPrefix: "lock:", ttlMs } as const;
  const worker = startWorker({
    spec: { strategy: "redis", ...common },
    ...{ name, waiters, aborts: false, seed: 1, ...holdMs === undefined ? {} : { holdMs } },
  });
  return {
    ...{ name, server, holder: holder!, next: next!, worker, waitersKey: keys.waiters },
    waiting: () => queueLength(server.command, keys),
    async [Symbol.asyncDispose]() {
      await worker[Symbol.asyncDispose]();
      await holder![Symbol.asyncDispose]();
      await next![Symbol.asyncDispose]();
      for (const { close } of clients) await close();
    },
  };
}

/** Queues all waiters of the process, and a live waiter behind them. */
async function lineUp(
  scene: Scene,
  waiters: number,
): Promise<{ held: Lease; next: Promise<Lease>; inbox: string }> {
  const { name, server: { command }, waitersKey } = scene;
  const proven = () => provenInboxes(command, waitersKey);
  const held = await scene.holder.acquire(name);
  await waitUntil("the process waits", async () => await scene.waiting() === waiters);
  await waitUntil("its inbox is proven", async () => (await proven()).length === 1);
  const [inbox] = await proven();
  const next = scene.next.acquire(name);
  next.catch(() => {}); // it is awaited later
  await waitUntil("the next one waits", async () => await scene.waiting() === waiters + 1);
  await waitUntil("its inbox is proven", async () => (await proven()).length === 2);
  return { held, next, inbox: inbox! };
}

/** Kills the process of the waiters ahead. Returns how long the live waiter then waits for a release. */
async function killAhead(server: RedisServer, waiters: number): Promise<number> {
  await using scene = await open(server, { waiters });
  const { held, next, inbox } = await lineUp(scene, waiters);
  scene.worker.kill("SIGKILL");
  await waitUntil("the server has noticed", async () => {
    return await listeners(server.command, inbox) === 0;
  });
  const releasedMs = performance.now();
  const [, lease] = await Promise.all([held.release(), within("it is granted", next)]);
  const waitedMs = performance.now() - releasedMs;
  assert(lease.remainingMs > 0);
  await lease.release();
  return waitedMs;
}

for (const waiters of [1, 100]) {
  Deno.test(`RedisLock skips ${waiters} dead waiters without waiting for a claim or a TTL`, async () => {
    await using server = await startRedis();
    // A client that subscribes to all channels must not make dead waiters look alive.
    using monitor = await connectResp(server.url);
    await monitor.command("PSUBSCRIBE", "*");
    const waitedMs: number[] = [];
    for (let i = 0; i < ROUNDS; i++) waitedMs.push(await killAhead(server, waiters));
    say(`${waiters} killed: release to grant, median ${median(waitedMs)} ms`);
    assertLess(median(waitedMs), CLAIM_MS);
    monitor[Symbol.dispose]();
    await nothingLasts(server);
  });
}

Deno.test("RedisLock.acquire() waits for one short claim at most when all earlier waiters are dead", async () => {
  await using server = await startRedis();
  {
    await using scene = await open(server, { waiters: 100 });
    const held = await scene.holder.acquire(scene.name);
    await waitUntil("the process waits", async () => await scene.waiting() === 100);
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(server.command, scene.waitersKey)).length === 1;
    });
    const [inbox] = await provenInboxes(server.command, scene.waitersKey);
    scene.worker.kill("SIGKILL");
    await waitUntil("the server has noticed", async () => {
      return await listeners(server.command, inbox!) === 0;
    });
    const releasedMs = performance.now();
    await held.release();
    const lease = await within("it is granted", scene.next.acquire(scene.name));
    const waitedMs = performance.now() - releasedMs;
    say(`all 100 killed: release to grant of the next who came ${Math.round(waitedMs)} ms`);
    assertLess(waitedMs, CLAIM_BOUND_MS);
    await lease.release();
  }
  await nothingLasts(server);
});

Deno.test("RedisLock waits for one claim in all when the first 100 waiters are in a frozen process", async () => {
  await using server = await startRedis();
  {
    await using scene = await open(server, { waiters: 100, holdMs: 0 });
    const { held, next } = await lineUp(scene, 100);
    scene.worker.kill("SIGSTOP");
    const releasedMs = performance.now();
    await held.release();
    const lease = await within("it is granted", next);
    const waitedMs = performance.now() - releasedMs;
    say(`100 frozen: release to grant ${Math.round(waitedMs)} ms`);
    assertLess(waitedMs, CLAIM_BOUND_MS);
    scene.worker.kill("SIGCONT");
    await waitUntil("all are back in line", async () => await scene.waiting() === 100);
    assertEquals(scene.worker.grants, [], "nobody believed in a claim that had run out");
    assert(lease.remainingMs > 0);
    await lease.release();
    assertEquals(await scene.worker.finish(), 0);
    assert(scene.worker.grants.length >= 100);
    assertEquals(overlaps(scene.worker.grants), 0);
  }
  await nothingLasts(server);
});

Deno.test("RedisLock waits for one claim in all when the first 100 waiters polled and are dead", async () => {
  await using server = await startRedis();
  const { command, hostname, port } = server;
  await command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels");
  {
    const url = `redis://mute:secret@${hostname}:${port}`;
    await using scene = await open(server, { waiters: 100, url });
    const held = await scene.holder.acquire(scene.name);
    await waitUntil("all wait, and poll", async () => {
      const entries = await command("HVALS", scene.waitersKey) as string[];
      const polling = entries.filter((entry) => /^\d+ \d+ \d+ -/.test(entry));
      return await scene.waiting() === 100 && polling.length === 100;
    });
    const next = scene.next.acquire(scene.name);
    await waitUntil("the next one waits", async () => await scene.waiting() === 101);
    await scene.worker[Symbol.asyncDispose](); // by SIGKILL
    const releasedMs = performance.now();
    await held.release();
    const lease = await within("it is granted", next);
    const waitedMs = performance.now() - releasedMs;
    say(`100 that polled killed: release to grant ${Math.round(waitedMs)} ms`);
    assertLess(waitedMs, CLAIM_BOUND_MS);
    await lease.release();
  }
  await nothingLasts(server);
});

/** Kills a holder. Returns how long after the end of its key the first waiter held the lock. */
async function killHolder(server: RedisServer): Promise<number> {
  let lateMs = 0;
  await untilShown(async () => {
    const ms = await lateAfterKill(server);
    lateMs = ms ?? 0;
    return ms === null ? "stalled" : "shown";
  });
  return lateMs;
}

/** Does it once; `null` if the machine has stalled until the key was gone. */
async function lateAfterKill(server: RedisServer): Promise<number | null> {
  const ttlMs = FAULT_TTL_MS;
  using stallsBefore = watchStalls();
  await using scene = await open(server, { waiters: 1, ttlMs, holdMs: 600_000 });
  const { lock } = lockKeys("lock:", scene.name);
  await waitUntil("it is held", async () => await server.command("EXISTS", lock) === 1);
  const next = scene.next.acquire(scene.name);
  await waitUntil("the next one waits", async () => await scene.waiting() === 1);
  await scene.worker[Symbol.asyncDispose](); // by SIGKILL
  using stalls = watchStalls();
  const leftMs = Number(await server.command("PTTL", lock));
  const isTooLate = leftMs < 0 && Math.max(stallsBefore.longestMs, stalls.longestMs) > ttlMs / 4;
  assert(leftMs > 0 || isTooLate, "the key outlives its holder");
  const endMs = performance.now() + leftMs;
  const lease = await within("it is granted", next);
  const lateMs = Math.max(0, performance.now() - endMs - stalls.longestMs);
  await lease.release();
  return isTooLate ? null : lateMs;
}

Deno.test("RedisLock grants the lock soon after the key of a dead holder has expired", async () => {
  await using server = await startRedis();
  const lateMs = await Promise.all(Array.from({ length: ROUNDS }, () => killHolder(server)));
  say(`holder killed: expiry to grant, median ${median(lateMs)} ms`);
  assertLess(median(lateMs), scaled(1_000));
  await nothingLasts(server);
});
