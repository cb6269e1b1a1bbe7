/**
 * Shared leases of one client: several at once, beside owner ids, lost messages, and the losses of keys.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ASK } from "../../redis/protocol/scripts.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { aborted, within } from "../../testing/conformance/bounds.ts";
import { Gate } from "../../testing/redis/gated_client.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { play } from "../../testing/redis/race_stage.ts";
import { playOnWire } from "../../testing/redis/wire_stage.ts";
import { onlyFencesLeft } from "../../testing/redis/traces.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { FAULT_TTL_MS, KEPT_TTL_MS, LONG_TTL_MS } from "../../testing/time.ts";

const SHARED = { mode: "shared" } as const;
const KEYS = lockKeys("lock:", "n");

Deno.test("RedisLock.acquire() and attach() refuse the owner id that stands for all holders of a shared lock", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  {
    await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
    await using reader = await lock.acquire("n", SHARED);
    const reserved = "holdfast:shared";
    await assertRejects(() => lock.acquire("n", { ownerId: reserved }), RangeError, "reserved");
    await assertRejects(() => lock.tryAcquire("n", { ownerId: reserved }), RangeError, "reserved");
    await assertRejects(() => lock.attach("n", reserved), RangeError, "reserved");
    await reader.renew();
  }
  await close();
  await onlyFencesLeft(server, LONG_TTL_MS);
});

Deno.test("RedisLock ends all shared leases of a client when it grants the lock exclusively, and only then", () =>
  play(async ({ lock, server: { command } }) => {
    const readers = [
      await lock.acquire("n", SHARED),
      await lock.acquire("n", SHARED),
      await lock.acquire("n", { limit: 3 }),
    ];
    for (const reader of readers) reader.throwIfLost();
    await command("DEL", KEYS.lock);
    const writer = await lock.acquire("n");
    for (const { signal } of readers) {
      assert(signal.aborted);
      assertEquals(signal.reason.reason, "stolen");
    }
    assertEquals(await writer.release(), true);
    // What the lost leases have left is swept, two per shared grant.
    for (let i = 0; i < 2; i++) {
      assertEquals(await (await lock.acquire("n", SHARED)).release(), true);
    }
  }));

for (const lost of ["lock", "queue", "waiters"] as const) {
  Deno.test(`RedisLock ends a shared lease at its next renewal after the loss of the ${lost} key`, async () => {
    await using server = await startRedis();
    const { client, close } = await openRedisClient("node-redis", server.url);
    {
      await using lock = new RedisLock(client, { ttlMs: KEPT_TTL_MS });
      const reader = await lock.acquire("n", { limit: 1 });
      const { signal } = reader;
      await server.command("DEL", KEYS[lost]);
      await within("its signal aborts", aborted(signal));
      assertEquals(signal.reason.reason, "expired");
      const next = await within("its place is free again", lock.acquire("n", { limit: 1 }));
      assertEquals(await next.release(), true);
    }
    await close();
  });
}

Deno.test("RedisLock.acquire() with a limit gets the place of a crashed holder though a later caller was queued first", () =>
  play(async ({ lock, other, gates, server: { command }, keys, waiting }) => {
    const { lock: key, queue, waiters, token } = keys;
    const holder = await other.acquire("n", { limit: 2 });
    // The reply to the first ask is lost. It is sent again when the second caller is in the waiting room.
    const again = new Gate();
    let firstValue: string | undefined;
    gates.onRequest = ({ script, args: [value] }) => {
      if (script === "ask" && value === firstValue) return again.pass();
      firstValue ??= value;
    };
    gates.onReply = ({ script }) => {
      if (script !== "ask") return;
      gates.onReply = undefined;
      throw new Error("The connection was lost");
    };
    const crashed = [
      "crashed#0123456789abcdef",
      String(FAULT_TTL_MS),
      "0",
      "try",
      "nobody 0 0",
      "2",
    ];
    await command("EVAL", ASK.source, "4", key, queue, waiters, token, ...crashed);
    const first = lock.acquire("n", { limit: 2 });
    await waitUntil("it is in the queue", async () => await waiting() === 1);
    const queued = Promise.withResolvers<void>();
    const second = lock.acquire("n", { onWait: () => queued.resolve() });
    second.catch(() => {}); // it is awaited later
    await queued.promise;
    await again.arrived;
    again.open();
    const lease = await within("the crashed holder's place is free", first);
    holder.throwIfLost();
    await lease.release();
    await holder.release();
    await (await second).release();
  }));

Deno.test("RedisLock.acquire() in shared mode finds grants whose messages are lost", () =>
  playOnWire("node-redis", async (stage) => {
    const { held, waiting } = await stage.queueUp();
    const readers = [stage.lock.acquire("n", SHARED), stage.lock.acquire("n", SHARED)];
    await waitUntil("all wait", async () => (await stage.other.query("n")).waiterCount === 3);
    await held.release();
    const writer = await within("the writer is first", waiting);
    stage.onReply = (reply) => reply === "message" ? "drop" : "pass";
    await writer.release();
    for (const lease of await within("both are granted the lock", Promise.all(readers))) {
      lease.throwIfLost();
      assertEquals(await lease.release(), true);
    }
    assertEquals(await stage.holder(), null);
    await stage.freeAtOnce();
  }));

Deno.test("RedisLock takes calls that confirm their grants by an ask for no loss of the queue", () =>
  play(async ({ lock, other, gates, waiting }) => {
    const options = { limit: 2, autoRenew: false };
    const [first, second] = [await other.acquire("n", options), await other.acquire("n", options)];
    // The asks of each call, in the order of the calls.
    const asks = new Map<string, number>();
    const numberOf = (value: string) => [...asks.keys()].indexOf(value);
    const gate = new Gate();
    let isGated = false;
    gates.onRequest = ({ script, args: [value = ""] }) => {
      if (script !== "ask") return;
      asks.set(value, (asks.get(value) ?? 0) + 1);
      if (isGated && numberOf(value) === 1) return gate.pass();
    };
    const calls: Promise<Lease>[] = [];
    while (calls.length < 10) {
      calls.push(lock.acquire("n", options));
      calls.at(-1)!.catch(() => {}); // it is awaited later
      await waitUntil("it waits", async () => await waiting() === calls.length);
    }
    await first.release();
    const lease0 = await calls[0]!;
    // Call 1 has a message of its grant, and asks for a whole TTL: that is held back.
    isGated = true;
    await second.release();
    await gate.arrived;
    const last = [...asks.keys()].at(-1)!;
    asks.set(last, 0);
    gates.gap(); // from now on one look is enough to believe that waiters are missing
    await lease0.release();
    await (await calls[2]!).release();
    const lease3 = await calls[3]!;
    assertEquals(asks.get(last), 0, "the last one has no reason to ask");
    gate.open();
    await lease3.release();
    for (const call of [calls[1]!, ...calls.slice(4)]) await (await call).release();
  }, { unavailableAfterMs: LONG_TTL_MS }));
