/**
 * Crowds that wait while a replica takes over, for a lock that its holder releases after that: how long it takes
 * until all are served, beside a run without a failover. Only in a soak.
 */
import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { BOUND_MS, lateGrants, type LineGrant } from "../../testing/load/waiting_lines.ts";
import { say } from "../../testing/processes/figures.ts";
import {
  type FailoverClient,
  type FailoverPlace,
  NAME,
  openFailoverPlace,
} from "../../testing/redis/failover_places.ts";
import type { OpenClient } from "../../testing/redis/clients.ts";
import { QueueLooks } from "../../testing/load/queue_looks.ts";
import { queuedValues } from "../../testing/redis/queue_reader.ts";
import { redisSentinelSkip } from "../../testing/servers/redis_sentinel.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS, scaled } from "../../testing/time.ts";

const WAITERS = [100, 1_000, 10_000];
/** How long it takes at most until a process notices by itself that the server has lost its queue. */
const HEARTBEAT_MS = 2_000;
const NONCE_LENGTH = "#0123456789abcdef".length;
const KEYS = lockKeys("lock:", NAME);
/** Only the new primary has it: a client that reads it has moved. In Cluster it is where the lock is. */
const MOVED_KEY = `${NAME}moved`;

const wantsSoak = Deno.env.get("HOLDFAST_SOAK") === undefined;
const skip = wantsSoak ? "soak only" : await redisSentinelSkip();
const suffix = skip === undefined ? "" : ` [skipped: ${skip}]`;

const CLIENTS = [
  "ioredis-sentinel",
  "node-redis-sentinel",
  "ioredis-cluster",
  "node-redis-cluster",
] as const;

/** What ends the service of a primary until its replica has taken over. */
const FAILOVERS = {
  "a planned failover": (place: FailoverPlace) => place.failOver(),
  "a crash": (place: FailoverPlace) => place.primary().kill("SIGKILL"),
};

interface Crowd {
  readonly client: FailoverClient;
  readonly waiters: number;
  /** Each has a connection of its own. */
  readonly instances: number;
}

interface Served {
  readonly tookMs: number;
  /** Until all clients have moved to the new primary. */
  readonly movedMs: number;
  readonly late: number;
  /** Of the grants since all waited again: how many, in how many lines, and how many of these out of order. */
  readonly back: number;
  readonly linesBack: number;
  readonly lateWhenBack: number;
}

/** Makes the calls wait, each of which releases its lease at once. */
function lineUp(locks: readonly RedisLock[], waiters: number) {
  const lines: LineGrant[][] = locks.map(() => []);
  const calls = Array.from({ length: waiters }, async (_, i) => {
    const lease = await locks[i % locks.length]!.acquire(NAME);
    const { ownerId, fencingToken, remainingMs } = lease;
    const token = String(fencingToken);
    lines[i % locks.length]!.push({ ownerId, token, isValid: remainingMs > 0 });
    await lease.release();
  });
  return { lines, ended: Promise.all(calls) };
}

/** Resolves when all clients have moved to the new primary. */
async function whenMoved(place: FailoverPlace, opened: readonly OpenClient[]): Promise<void> {
  const set = () => place.primary().command("SET", MOVED_KEY, "1").catch(() => null);
  await waitUntil("the new primary has the key", async () => await set() === "OK");
  await Promise.all(opened.map(({ client }) =>
    waitUntil("each client reads it", async () => {
      return await client.send("GET", [MOVED_KEY], MOVED_KEY).catch(() => null) === "1";
    })
  ));
}

/** Serves a crowd for which the lock becomes free when all clients have moved, if there is a failover. */
async function serve(
  { client, waiters, instances }: Crowd,
  fail?: (place: FailoverPlace) => Promise<unknown>,
): Promise<Served> {
  await using place = await openFailoverPlace(client);
  const opened = await Promise.all(
    Array.from({ length: instances + 1 }, () => place.open(client)),
  );
  const [holder, ...locks] = opened.map(({ client }) => {
    return new RedisLock(client, { ttlMs: LONG_TTL_MS, unavailableAfterMs: BOUND_MS });
  });
  const held = await holder!.acquire(NAME);
  const { lines, ended } = lineUp(locks, waiters);
  const queued = () => queuedValues(place.primary().command, KEYS);
  await waitUntil("all wait", async () => (await queued()).length === waiters, BOUND_MS);
  const order = (await queued()).map((value) => value.slice(0, -NONCE_LENGTH));
  const startMs = performance.now();
  let movedMs = 0;
  if (fail !== undefined) {
    await fail(place);
    await place.promoted();
    // Before that, a crowd may be served by the old primary.
    await whenMoved(place, opened);
    movedMs = performance.now() - startMs;
  }
  await using looks = new QueueLooks(place.primary().command, KEYS, client.endsWith("sentinel"));
  await held.release();
  await ended;
  const tookMs = performance.now() - startMs;
  for (const lock of [holder!, ...locks]) await lock[Symbol.asyncDispose]();
  for (const { close } of opened) await close();
  assertEquals(lines.flat().length, waiters);
  for (const grants of lines) assertEquals(lateGrants(order, grants), 0, "within an instance");
  const back = looks.whenAllWait(lines);
  return {
    ...{ tookMs, movedMs, late: lateGrants(order, lines.flat()) },
    ...{ back: back.flat().length, linesBack: back.filter(({ length }) => length > 0).length },
    lateWhenBack: lateGrants(order, back.flat()),
  };
}

for (const client of CLIENTS) {
  for (const waiters of WAITERS) {
    for (const instances of [1, 4]) {
      const crowd = `${
        waiters.toLocaleString("en")
      } calls in ${instances} instance(s) of ${client}`;
      Deno.test({
        name: `RedisLock serves ${crowd} after a failover within 2 × the time without it${suffix}`,
        ignore: skip !== undefined,
        async fn() {
          // Before and after, as other work on the machine may come or go meanwhile.
          const before = await serve({ client, waiters, instances });
          const results: [string, Served][] = [];
          for (const [failover, fail] of Object.entries(FAILOVERS)) {
            results.push([failover, await serve({ client, waiters, instances }, fail)]);
          }
          const after = await serve({ client, waiters, instances });
          const baseMs = Math.max(before.tookMs, after.tookMs);
          for (const [failover, result] of results) {
            const { tookMs, movedMs, late, back, linesBack, lateWhenBack } = result;
            const restMs = tookMs - movedMs;
            const parts = [
              `${crowd}, ${failover}: ${Math.round(tookMs)} ms`,
              `without it ${Math.round(before.tookMs)} and ${Math.round(after.tookMs)} ms`,
              `all clients moved after ${Math.round(movedMs)} ms`,
              `the rest ${Math.round(restMs)} ms`,
              `${late} out of order; of the last ${back}, since all waited again, ${lateWhenBack}`,
            ];
            say(parts.join("; "));
            assertLessOrEqual(restMs, 2 * baseMs + scaled(HEARTBEAT_MS));
            assertEquals(lateWhenBack, 0);
            if (waiters >= 10_000) assertGreater(linesBack, instances > 1 ? 1 : 0);
          }
        },
      });
    }
  }
}
