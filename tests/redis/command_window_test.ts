/**
 * Many calls of one instance at once, on a real server: the window of unanswered commands.
 */
import { assert, assertEquals, assertLessOrEqual, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import type { RedisClient } from "../../redis/client.ts";
import { RedisLock } from "../../redis/mod.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const NAMES = Deno.env.get("HOLDFAST_SOAK") ? 100_000 : 10_000;
const BOUND_MS = LONG_BOUND_MS;

/** Wraps a client: counts the commands that it has not answered yet, and keeps what it has got. */
function counted(client: RedisClient) {
  const counts = { unanswered: 0, worst: 0 };
  const sent: string[] = [];
  const wrapped: RedisClient = {
    async send(command, args, key) {
      if (key !== "") sent.push(key);
      counts.worst = Math.max(counts.worst, ++counts.unanswered);
      try {
        return await client.send(command, args, key);
      } finally {
        counts.unanswered--;
      }
    },
    subscribe: (...args) => client.subscribe!(...args),
    get epoch() {
      return client.epoch;
    },
    cluster: false,
  };
  return { client: wrapped, counts, sent };
}

async function play(
  scene: (server: RedisServer, far: ReturnType<typeof counted>) => Promise<void>,
): Promise<void> {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    await scene(server, counted(client));
  } finally {
    await close();
  }
}

Deno.test(`RedisLock grants ${NAMES} names that are asked for at once by a new instance`, () =>
  play(async (_server, { client, counts }) => {
    await using lock = new RedisLock(client);
    const cycles = Array.from({ length: NAMES }, async (_, i) => {
      const lease = await lock.acquire(`n${i}`);
      return await lease.release();
    });
    const results = await within("all are granted", Promise.all(cycles), BOUND_MS);
    assertEquals(results.filter((isReleased) => !isReleased), []);
    assertEquals(counts.worst, MAX_UNANSWERED);
  }));

Deno.test("RedisLock renews a lease ahead of thousands of asks that wait for their turn", () =>
  play(async (server, { client }) => {
    const options = { unavailableAfterMs: CONDITION_BOUND_MS, ttlMs: CONDITION_BOUND_MS };
    await using lock = new RedisLock(client, options);
    const lease = await lock.acquire("held");
    await server.pause();
    const calls = Array.from({ length: 5_000 }, async (_, i) => {
      await using _lease = await lock.acquire(`n${i}`);
    });
    let asked = 0;
    for (const call of calls) call.then(() => asked++, () => {}); // awaited below
    const renewed = lease.renew().then(() => asked);
    await server.resume();
    assertLessOrEqual(await within("it is renewed", renewed), 2 * MAX_UNANSWERED);
    await within("all are granted", Promise.all(calls), BOUND_MS);
  }));

Deno.test("RedisLock never sends an ask that was aborted while it waited for its turn", () =>
  play(async (server, { client, sent }) => {
    await using lock = new RedisLock(client);
    await (await lock.acquire("warm-up")).release();
    await server.pause();
    const full = Array.from({ length: MAX_UNANSWERED }, (_, i) => lock.acquire(`n${i}`));
    const abort = new AbortController();
    const aborted = lock.acquire("aborted", { signal: abort.signal });
    abort.abort(new Error("no longer wanted"));
    await assertRejects(() => aborted, Error, "no longer wanted");
    await server.resume();
    for (const lease of await Promise.all(full)) await lease.release();
    assertEquals(sent.filter((key) => key === "lock:aborted"), []);
  }));

Deno.test("RedisLock rejects calls that cannot be handed over, and leaves one command per call in the client", () =>
  play(async (server, { client, counts, sent }) => {
    await using lock = new RedisLock(client, { unavailableAfterMs: 2_000, ttlMs: 1_000 });
    await (await lock.acquire("warm-up")).release();
    await waitUntil("all is answered", () => counts.unanswered === 0);
    await server.pause();
    const before = sent.length;
    const calls = Array.from({ length: MAX_UNANSWERED + 100 }, (_, i) => lock.acquire(`n${i}`));
    const rejected = calls.map((call) => assertRejects(() => call, LockUnavailableError));
    await within("all are rejected", Promise.all(rejected), CONDITION_BOUND_MS);
    // A clean-up that does not wait for the ask's answer is sent by the rejection itself.
    assertEquals(sent.length - before, MAX_UNANSWERED);
    assertEquals(counts.unanswered, MAX_UNANSWERED);
    await server.resume();
    await waitUntil("nothing is left", async () => {
      return counts.unanswered === 0 &&
        (await server.command("KEYS", "lock:*") as string[]).length === 0;
    });
    assert(!sent.includes(`lock:n${MAX_UNANSWERED}`), "that call was never sent");
  }));
