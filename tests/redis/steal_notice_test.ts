/**
 * When the victim of a steal learns of it.
 */
import { assert, assertEquals, assertGreaterOrEqual, assertInstanceOf } from "@std/assert";
import { type Lease, LeaseLostError } from "../../mod.ts";
import { RETRY_MS } from "../../core/time/outage_budget.ts";
import { RedisLock } from "../../redis/mod.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { atOnce, play, TTL_MS } from "../../testing/redis/race_stage.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { ENDING_TTL_MS, KEPT_TTL_MS } from "../../testing/time.ts";

const OUTAGE_MS = ENDING_TTL_MS;

function assertStolen({ signal }: Lease): void {
  assert(signal.aborted);
  assertInstanceOf(signal.reason, LeaseLostError);
  assertEquals(signal.reason.reason, "stolen");
}

Deno.test("RedisLock.request() with steal: a victim in the same instance has lost its lease when the thief has one", () =>
  play(async ({ lock, gates }) => {
    const victim = await lock.acquire("n");
    const { signal } = victim;
    await lock.request("n", { steal: true }, (thief) => {
      assert(signal.aborted, "the victim knows");
      assertStolen(victim);
      assertEquals(victim.remainingMs, 0);
      thief!.throwIfLost();
    });
    assert(!gates.sent.some(({ script }) => script === "renew"), "no renewal found it out");
  }));

Deno.test("RedisLock.request() with steal: so has a victim in another RedisLock on the same client", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    await using one = new RedisLock(client, { ttlMs: TTL_MS });
    await using two = new RedisLock(client, { ttlMs: TTL_MS });
    const victim = await one.acquire("n");
    const bystander = await one.acquire("other");
    const { signal } = victim;
    await two.request("n", { steal: true }, () => assert(signal.aborted));
    assertStolen(victim);
    bystander.throwIfLost();
  } finally {
    await close();
  }
});

Deno.test("RedisLock.acquire() waits when its grant was stolen on the same client before the answer was read", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    const gate = new Gate();
    gates.onReply = gate.first("ask");
    const waiting = lock.acquire("n");
    await gate.arrived;
    await lock.request("n", { steal: true }, async (thief) => {
      gate.open();
      await waitUntil("it waits", async () => await stage.waiting() === 1);
      thief!.throwIfLost();
    });
    const lease = await waiting;
    lease.throwIfLost();
    assertEquals(await lease.release(), true);
  }));

Deno.test("RedisLock.request() with steal notifies a victim at once whose inbox is open, however it got the lock", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const { held, waiting } = await stage.queueUp(); // opens the inbox of `lock`
    await held.release();
    await (await atOnce("it is granted", waiting)).release();
    const victim = await lock.acquire("elsewhere"); // free: not granted from a queue
    const { signal } = victim;
    gates.sent.length = 0;
    await other.request("elsewhere", { steal: true }, async (thief) => {
      await atOnce("the victim is notified", aborted(signal));
      assertStolen(victim);
      assert(!gates.sent.some(({ script }) => script === "renew"), "no renewal found it out");
      thief!.throwIfLost();
    });
  }));

Deno.test("RedisLock.request() with steal: a victim whose inbox is closed learns of it at its next renewal", async () => {
  await using server = await startRedis();
  const near = await openRedisClient("node-redis", server.url);
  const far = await openRedisClient("node-redis", server.url);
  try {
    const options = { ttlMs: KEPT_TTL_MS };
    await using lock = new RedisLock(far.client, options);
    await using other = new RedisLock(near.client, options);
    const victim = await lock.acquire("n");
    const { signal } = victim;
    await other.request("n", { steal: true }, async () => {
      await within("the victim finds out", aborted(signal));
    });
    assertStolen(victim); // at its deadline it would be unreachable
    assertEquals(await server.command("PUBSUB", "CHANNELS"), []);
  } finally {
    await far.close();
    await near.close();
  }
});

Deno.test("RedisLock.acquire() pauses between asks, and reports no outage, while the server has lost a lease that still counts here", () =>
  play(async ({ lock, gates, keys, waiting, server: { command } }) => {
    await command("SET", keys.token, "9000000000000000"); // a later one than any that the server makes
    const believed = await lock.acquire("n");
    // When each of two other calls asks, from the loss on.
    const sentMs = new Map<string, number[]>();
    gates.onRequest = ({ script, args: [value = ""] }) => {
      if (script !== "ask") return;
      sentMs.set(value, [...sentMs.get(value) ?? [], performance.now()]);
    };
    const calls = [lock.acquire("n"), lock.acquire("n")];
    for (const call of calls) call.catch(() => {}); // they are awaited later
    await waitUntil("both wait", async () => await waiting() === 2);
    for (const times of sentMs.values()) times.length = 0;
    await command("DEL", keys.lock, keys.token); // the next token is lower
    await waitUntil("the first asks for longer than an outage, the second for its process", () => {
      const [first = [], second = []] = [...sentMs.values()];
      return first.at(-1)! - first[0]! > 2 * OUTAGE_MS && second.length > 3;
    });
    believed.throwIfLost();
    const [asks] = sentMs.values();
    const tookMs = asks!.at(-1)! - asks![0]!;
    assertGreaterOrEqual(tookMs, (asks!.length - 1) * (RETRY_MS - 1));
    await believed.release();
    for (const call of calls) await (await call).release();
  }, { ttlMs: 600_000, unavailableAfterMs: OUTAGE_MS }));
