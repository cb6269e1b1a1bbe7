/**
 * A process that is frozen while it waits keeps its places in the queue, also if the queue empties.
 */
import { assert, assertEquals } from "@std/assert";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { type Line, lineUp, startLine, tally } from "../../testing/load/waiting_lines.ts";
import { say } from "../../testing/processes/figures.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { parkedInboxes, queuedValues, queueLength } from "../../testing/redis/queue_reader.ts";
import { nothingLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** The lease of an inbox, in ms. */
const LEASE_MS = 6_000;
const TTL_MS = LONG_TTL_MS;
/** Longer than a stalled machine keeps an ask waiting. */
const UNAVAILABLE_AFTER_MS = scaled(2_000);
const NAME = "n";
/** So many processes thaw at once that each has to wait for the processor. */
const PROCESSES = 6;
const LATER_WAITERS = 3;
const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** The soak freezes them for almost as long as a place is kept. */
const FREEZES_MS = SOAK ? [7_000, 20_000, 59_000] : [7_000];

interface Freeze {
  readonly waiters: number;
  readonly freezeMs: number;
  /** After how many ms of the freeze the lock is released. */
  readonly releaseMs: number;
}

/** At once: a waiter is granted a claim, which lapses. Later: the inbox has no lease any more. */
const FREEZES: readonly Freeze[] = FREEZES_MS.flatMap((freezeMs) =>
  [1, 500].flatMap((waiters) =>
    [0, LEASE_MS + 500].map((releaseMs) => ({ waiters, freezeMs, releaseMs }))
  )
);

function describe({ waiters, freezeMs, releaseMs }: Freeze): string {
  return `${waiters} frozen for ${freezeMs} ms, lock released after ${releaseMs} ms`;
}

/** The two instances of this process. */
interface Others {
  readonly server: RedisServer;
  readonly keeper: RedisLock;
  readonly later: RedisLock;
}

// Paces a workload: how long a process is frozen.
function lasts(ms: number): Promise<void> {
  return pause(ms);
}

/** Freezes a process with waiters. Returns how many later calls are ahead of the last of them. */
async function freeze({ server, keeper, later }: Others, scene: Freeze): Promise<number> {
  const { command } = server;
  const name = crypto.randomUUID();
  const keys = lockKeys("lock:", name);
  const held = await keeper.acquire(name);
  await using frozen = await lineOf(server, scene.waiters, name);
  await lineUp([frozen]);
  await waitUntil("it listens", async () => {
    return (await provenInboxes(command, keys.waiters)).length === 1;
  });
  const values = await queuedValues(command, keys);
  frozen.kill("SIGSTOP");
  const frozenMs = performance.now();
  await lasts(scene.releaseMs);
  await held.release();
  const again = await keeper.acquire(name); // the frozen waiters are passed over
  const calls = Array.from({ length: LATER_WAITERS }, () => later.acquire(name));
  const served = Promise.all(calls.map((call) => call.then((lease) => lease.release())));
  served.catch(() => {}); // it is awaited later
  await lasts(scene.freezeMs - (performance.now() - frozenMs));
  frozen.kill("SIGCONT");
  await waitUntil("all wait", async () => {
    assertEquals(tally(frozen.rejections), "none");
    const waiting = await queueLength(command, keys);
    return waiting === scene.waiters + LATER_WAITERS && await parkedInboxes(command, keys) === 0;
  });
  const places = await queuedValues(command, keys);
  await again.release();
  assertEquals(await frozen.finish(), 0);
  allGranted(frozen);
  await served;
  const last = Math.max(...values.map((value) => places.indexOf(value)));
  return places.slice(0, last).filter((value) => !values.includes(value)).length;
}

function lineOf(
  { url }: RedisServer,
  waiters: number,
  name: string,
  unavailableAfterMs = CONDITION_BOUND_MS,
): Promise<Line> {
  const place = { client: "node-redis", url, keyPrefix: "lock:", ttlMs: TTL_MS } as const;
  return startLine({ spec: { strategy: "redis", ...place, unavailableAfterMs }, name, waiters });
}

async function scriptCalls({ command }: RedisServer): Promise<number> {
  const stats = String(await command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]);
}

function allGranted(line: Line): void {
  assertEquals(tally(line.rejections), "none");
  assertEquals(line.grants.length, line.waiters);
  assert(line.grants.every(({ isValid }) => isValid));
}

Deno.test("RedisLock keeps the places of waiters whose process is frozen while the queue empties", async () => {
  await using server = await startRedis();
  const clients = [
    await openRedisClient("node-redis", server.url),
    await openRedisClient("ioredis", server.url),
  ];
  {
    await using keeper = new RedisLock(clients[0]!.client, { ttlMs: TTL_MS });
    await using later = new RedisLock(clients[1]!.client, { ttlMs: TTL_MS });
    const results = await Promise.all(FREEZES.map(async (scene) => {
      const overtakers = await freeze({ server, keeper, later }, scene).catch(String);
      say(`${describe(scene)}: overtaken by ${overtakers}`);
      return overtakers;
    }));
    assertEquals(results, FREEZES.map(() => 0));
  }
  for (const { close } of clients) await close();
  await nothingLeft(server);
});

for (const waiters of SOAK ? [1, 500] : [1]) {
  Deno.test(`RedisLock takes no freeze for an outage when ${waiters} wait and an ask is unanswered`, async () => {
    await using server = await startRedis();
    const { client, close } = await openRedisClient("node-redis", server.url);
    {
      await using lock = new RedisLock(client, { ttlMs: TTL_MS });
      const held = await lock.acquire(NAME);
      const lines = await Promise.all(
        Array.from(
          { length: PROCESSES },
          () => lineOf(server, waiters, NAME, UNAVAILABLE_AFTER_MS),
        ),
      );
      await lineUp(lines);
      const { waiters: key } = lockKeys("lock:", NAME);
      await waitUntil("all listen", async () => {
        return (await provenInboxes(server.command, key)).length === PROCESSES;
      });
      await server.pause();
      await lasts(1_000); // longer than until the next ask of the first in line
      for (const line of lines) line.kill("SIGSTOP");
      await server.resume();
      await lasts(UNAVAILABLE_AFTER_MS);
      const asked = await scriptCalls(server);
      for (const line of lines) line.kill("SIGCONT");
      await waitUntil(
        "the first in line asks again",
        async () => await scriptCalls(server) > asked,
      );
      await held.release();
      for (const line of lines) {
        await line.finish();
        assertEquals(tally(line.rejections), "none");
      }
      for (const line of lines) await line[Symbol.asyncDispose]();
    }
    await close();
    await nothingLeft(server);
  });
}
