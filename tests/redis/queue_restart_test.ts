/**
 * A server that restarts while many wait, with its data or without.
 */
import { assert, assertEquals } from "@std/assert";
import { LEAVE } from "../../redis/protocol/scripts.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { fourOf, startFifty, WAITERS } from "../../testing/redis/waiter_fleet.ts";
import { explainOrder, traceOrder } from "../../testing/redis/order_trace.ts";
import { nothingLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";
import { say } from "../../testing/processes/figures.ts";

const NAME = "n";
const KEYS = lockKeys("lock:", NAME);

Deno.test("RedisLock grants the lock in order when Redis restarts while 50 calls wait", async () => {
  await using server = await startRedis({
    args: ["--appendonly", "yes", "--appendfsync", "always"],
  });
  const { command } = server;
  {
    const holder = await openRedisClient("node-redis", server.url);
    await using lock = new RedisLock(holder.client, {
      ttlMs: LONG_TTL_MS,
      unavailableAfterMs: CONDITION_BOUND_MS,
    });
    const held = await lock.acquire(NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME);
    await waitUntil("all wait", async () => await queueLength(command, KEYS) === WAITERS);
    await waitUntil("all listen", async () => await channels(server) === 4);
    await server.restart();
    assertEquals(await queueLength(command, KEYS), WAITERS, "the queue survived");
    await waitUntil("all listen again", async () => await channels(server) === 4);
    using trace = await traceOrder(server, NAME);
    assert(held.remainingMs > 0);
    await held.release();
    await within("everybody is served", fleet.finish());
    assertEquals([fleet.overlaps, fleet.refusals], [0, 0]);
    assert(fleet.grants.length >= WAITERS);
    say(await explainOrder(trace, fleet.grants));
    await lock[Symbol.asyncDispose]();
    await holder.close();
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants the lock in order when it is released before any waiter has subscribed again", async () => {
  await using server = await startRedis({
    args: ["--appendonly", "yes", "--appendfsync", "always"],
  });
  const { command } = server;
  const { lock, queue, waiters, token } = KEYS;
  await command("SET", lock, "somebody-else", "PX", 60_000);
  {
    await using fleet = await startFifty(fourOf(server.url), NAME, 5);
    await waitUntil("all wait", async () => await queueLength(command, KEYS) === WAITERS);
    await waitUntil("all listen", async () => {
      return (await provenInboxes(command, waiters)).length === 4;
    });
    await server.restart();
    await command(
      "EVAL",
      LEAVE.source,
      4,
      lock,
      queue,
      waiters,
      token,
      "somebody-else",
      0,
      "handoff",
    );
    const left = await queueLength(command, KEYS);
    using trace = await traceOrder(server, NAME);
    await within("everybody is served", fleet.finish());
    assertEquals([fleet.overlaps, fleet.refusals], [0, 0]);
    assert(fleet.grants.length >= WAITERS);
    say(`${left} of ${WAITERS} in the queue: ${await explainOrder(trace, fleet.grants)}`);
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants every waiter the lock when Redis loses lock and queue while 50 calls wait", async () => {
  await using server = await startRedis();
  const holder = await openRedisClient("node-redis", server.url);
  {
    await using lock = new RedisLock(holder.client);
    const held = await lock.acquire(NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME, 1);
    await waitUntil("all wait", async () => await queueLength(server.command, KEYS) === WAITERS);
    await server.restart();
    // The lease is lost with the server's data. From now on only the fencing token protects.
    await waitUntil("the work goes on", () => fleet.grants.length >= WAITERS);
    await within("everybody is served", fleet.finish());
    assertEquals([fleet.overlaps, fleet.refusals], [0, 0]);
    assert(fleet.grants.every(({ token }) => BigInt(token) > held.fencingToken));
    await held.release();
  }
  await holder.close();
  await nothingLeft(server);
});

async function channels(server: RedisServer): Promise<number> {
  return (await server.command("PUBSUB", "CHANNELS", "holdfast:1:inbox:*") as string[]).length;
}
