/**
 * When the victim of a steal learns of it.
 */
import { assert, assertEquals, assertInstanceOf } from "@std/assert";
import { type Lease, LeaseLostError } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { atOnce, play, TTL_MS } from "../../testing/redis/race_stage.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_TTL_MS } from "../../testing/time.ts";

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
