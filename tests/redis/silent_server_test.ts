/**
 * Bounded waits while the server accepts connections and does not answer.
 *
 * @module
 */
import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { MAX_UNANSWERED } from "../../redis/protocol/command_window.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { ScriptedClient } from "../../testing/redis/scripted_client.ts";
import { countListeners } from "../../testing/core/count_listeners.ts";
import { SILENCES, worstLatenessMs } from "../../testing/conformance/silent_services.ts";
import { say } from "../../testing/processes/figures.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { scaled } from "../../testing/time.ts";
import { RedisLock } from "../../redis/mod.ts";

/** The promise is 1.1 s on a machine that has time. Some settings were 7 s late, or more. */
const LATE_MS = scaled(4_000);

const ALL_SILENCES: typeof SILENCES = {
  ...SILENCES,
  "drops each connection": (proxy) => {
    proxy.onReply = () => "cut";
    proxy.cutAll();
  },
};

for (const name of ["node-redis", "ioredis"] as const) {
  for (const [how, begin] of Object.entries(ALL_SILENCES)) {
    Deno.test(`RedisLock × ${name} keeps waitMs when the server ${how}`, async () => {
      await using server = await startRedis();
      const worst = await Promise.all([5_000, 15_000].map(async (unavailableAfterMs) => {
        await using proxy = startProxy(server);
        const { client, close } = await openRedisClient(
          name,
          `redis://${proxy.hostname}:${proxy.port}`,
        );
        try {
          await using lock = new RedisLock(client, { unavailableAfterMs, disposeTimeoutMs: 100 });
          await (await lock.acquire("n")).release();
          begin(proxy);
          const worstMs = Math.max(await worstLatenessMs(lock), await worstLatenessMs(lock));
          proxy.onReply = undefined;
          proxy.heal();
          proxy.cutAll();
          await lock.query("n"); // a client that is closed while it reconnects leaves a timer behind
          return worstMs;
        } finally {
          await close();
        }
      }));
      say(`the server ${how}: late by ${worst.map(Math.round).join(", ")} ms at worst`);
      assertLess(Math.max(...worst), LATE_MS);
    });
  }
}

Deno.test("RedisLock.query() leaves no listener when the server does not answer", async () => {
  const client = { send: () => new Promise(() => {}), epoch: 0, cluster: false };
  const options = { unavailableAfterMs: 20, disposeTimeoutMs: 0 };
  // The signal of disposal is internal: the listeners of all signals are counted.
  const listeners = countListeners(AbortSignal.prototype);
  try {
    await using lock = new RedisLock(client, options);
    const queries = [1, 2, 3].map(() => assertRejects(() => lock.query("n"), LockUnavailableError));
    assertEquals(listeners(), 1); // for all of them
    await Promise.all(queries);
    assertEquals(listeners(), 0);
  } finally {
    const own = AbortSignal.prototype as Partial<AbortSignal>;
    delete own.addEventListener; // both are inherited again
    delete own.removeEventListener;
  }
});

Deno.test("RedisLock.query() is not sent any more when it has failed", async () => {
  const client = new ScriptedClient();
  await using lock = new RedisLock(client, { unavailableAfterMs: 20, disposeTimeoutMs: 0 });
  const query = () => assertRejects(() => lock.query("n"), LockUnavailableError);
  await Promise.all(Array.from({ length: MAX_UNANSWERED + 10 }, query));
  assertEquals(client.unanswered.length, MAX_UNANSWERED);
  for (const { answer } of client.unanswered.splice(0)) answer([null, null, -2, 0, 0, []]);
  await settle();
  assertEquals(client.unanswered, []);
});
