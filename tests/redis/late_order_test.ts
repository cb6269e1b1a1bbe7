/**
 * Asks that reach the server too late: they keep their places before later ones, and prove nothing.
 */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { RedisLock } from "../../redis/mod.ts";
import { labelOfValue, lockKeys } from "../../redis/protocol/keys.ts";
import { ASK_LIFE_MS, DONE, NOTIFIED } from "../../redis/protocol/wire.ts";
import { FINISHED } from "../../testing/redis/wire_names.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { block } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { granted, late, queued, ScriptedClient } from "../../testing/redis/scripted_client.ts";
import { queuedValues } from "../../testing/redis/queue_reader.ts";
import { nothingAtLast } from "../../testing/redis/traces.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";

/** More than the client may have unanswered. */
const CALLS = 600;

// The client writes at the end of the turn, so all of the first asks are late. Where some are not, those that
// they let go may overtake a late one: as many as may be unanswered.
Deno.test("RedisLock queues calls of one tick in order when the first asks come too late", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  const keys = lockKeys("lock:", "n");
  {
    await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
    await using held = await lock.acquire("n"); // from now on asks have a last moment
    for (let i = 0; i < 2; i++) await lock.query("n"); // until INFO, which follows the first ask, is answered
    const calls = Array.from({ length: CALLS }, (_, i) => {
      return lock.acquire("n", { label: String(i) });
    });
    for (const call of calls) call.catch(() => {}); // it is awaited later
    queueMicrotask(() => block(1.5 * ASK_LIFE_MS));
    await waitUntil("all wait", async () => {
      return (await queuedValues(server.command, keys)).length === CALLS;
    });
    const labels = (await queuedValues(server.command, keys)).map(labelOfValue);
    assertEquals(labels, [...calls.keys()].map(String));
    await held.release();
    for (const call of calls) await (await call).release();
  }
  await close();
  await nothingAtLast(server, LONG_TTL_MS);
});

// In a cluster the answer to the later ask may come first: the earlier one was redirected.
Deno.test("RedisLock counts a lease from when its ask was sent when an earlier one is answered as late just then", async () => {
  const client = new ScriptedClient();
  await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
  let waits = false;
  const options = { autoRenew: false, onWait: () => void (waits = true) };
  const wait = lock.acquire("n", options);
  const first = client.take("n");
  first.answer(queued(1));
  await waitUntil("it waits", () => waits);
  client.gap();
  await settle();
  const earlier = client.take("n");
  client.publish(`grant 1 ${Date.now()} 3000\n${first.args[0]}\nlock:n`);
  await settle();
  const later = client.take("n");
  const sentMs = performance.now();
  block(ASK_LIFE_MS);
  later.answer(granted(1));
  earlier.answer(late());
  const lease = await wait;
  assertLessOrEqual(lease.remainingMs, LONG_TTL_MS - (performance.now() - sentMs));
  for (; client.unanswered.length > 0; await settle()) {
    for (const { answer } of client.unanswered.splice(0)) answer(granted(1));
  }
  const released = lease.release();
  await settle();
  client.take("n").answer([DONE, NOTIFIED, FINISHED, 0]);
  await released;
});
