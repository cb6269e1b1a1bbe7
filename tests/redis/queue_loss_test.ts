/**
 * A server that loses lock and queue while calls wait: all of them are back in the queue at once.
 */
import { assertEquals } from "@std/assert";
import { type Lease, LockTimeoutError } from "../../mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { lateGrants } from "../../testing/load/waiting_lines.ts";
import { openScene } from "../../testing/load/scene.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { say } from "../../testing/processes/figures.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { nothingLeft } from "../../testing/redis/traces.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

const WAITERS = 100;
/** By polls of the first waiter alone, two a second, only 60 of them would be served in this time. */
const WAIT_MS = scaled(30_000);
/** By these polls, 1,000 calls in 4 processes took 125 s. */
const SERVED_BOUND_MS = scaled(30_000);

const LOSSES = {
  "FLUSHALL": ({ command }: RedisServer) => command("FLUSHALL"),
  "a restart without data": (server: RedisServer) => server.restart(),
};

for (const [loss, lose] of Object.entries(LOSSES)) {
  Deno.test(`RedisLock grants all waiters the lock in order, and then newcomers, after ${loss}`, async () => {
    await using server = await startRedis();
    const clients = await Promise.all([1, 2].map(() => openRedisClient("node-redis", server.url)));
    const [holder, waiting] = clients.map(({ client }) => {
      return new RedisLock(client, {
        ttlMs: LONG_TTL_MS,
        unavailableAfterMs: CONDITION_BOUND_MS,
      });
    });
    const held = await holder!.acquire("n");
    const served: string[] = [];
    const serve = async (who: string, lease: Lease) => {
      served.push(who);
      await lease.release();
    };
    const queued = (count: number) => async () =>
      await queueLength(server.command, lockKeys("lock:", "n")) === count;
    let newcomer: Promise<void> | undefined;
    const calls = Array.from({ length: WAITERS }, async (_, i) => {
      const lease = await waiting!.acquire("n", { waitMs: WAIT_MS });
      if (newcomer === undefined) {
        // On a busy machine some asks come too late; sent again, they would come behind a newcomer.
        await waitUntil("the others are back", queued(WAITERS - 1));
        newcomer = waiting!.acquire("n").then((lease) => serve("newcomer", lease));
      }
      await serve(String(i), lease);
    });
    await waitUntil("all wait", queued(WAITERS));
    await lose(server);
    await held.release(); // gone, or, over a new connection, not known
    const rejected = (await Promise.allSettled(calls)).filter(({ status }) =>
      status === "rejected"
    );
    const timeouts = rejected.filter((result) => {
      return result.status === "rejected" && result.reason instanceof LockTimeoutError;
    });
    assertEquals([timeouts.length, rejected.length], [0, 0]);
    await newcomer;
    assertEquals(served, [...calls.keys()].map(String).concat("newcomer"));
    for (const lock of [holder!, waiting!]) await lock[Symbol.asyncDispose]();
    for (const { close } of clients) await close();
    await nothingLeft(server);
  });

  Deno.test(`RedisLock grants 1,000 calls in 4 processes the lock soon after ${loss}`, async () => {
    await using scene = await openScene({ waiters: 1_000, processes: 4, client: "ioredis" });
    const { server, lines, order } = scene;
    await scene.settled();
    const startMs = performance.now();
    await lose(server);
    await within(
      "all are served",
      Promise.all(lines.map((line) => line.finish())),
      SERVED_BOUND_MS,
    );
    const tookMs = Math.round(performance.now() - startMs);
    for (const line of lines) assertEquals(lateGrants(order, line.grants), 0, "within a process");
    const grants = lines.flatMap((line) => line.grants);
    assertEquals(grants.length, order.length);
    say(`after ${loss}: all granted in ${tookMs} ms, ${lateGrants(order, grants)} out of order`);
    await scene.end();
    await nothingLeft(server);
  });
}
