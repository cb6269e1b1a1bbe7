/**
 * Clients that resend commands automatically, and links slower than the time limit of an ask.
 */
import { assertEquals, assertLess, assertLessOrEqual, assertRejects } from "@std/assert";
import { LockUnavailableError } from "../../mod.ts";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { ASK_LIFE_MS, TOO_LATE } from "../../redis/protocol/wire.ts";
import { ASK } from "../../redis/protocol/scripts.ts";
import { type RedisClient, RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { queueLength } from "../../testing/redis/queue_reader.ts";
import { Gate, gated } from "../../testing/redis/gated_client.ts";
import { warmUp } from "../../testing/redis/memory_check.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** Longer than a stall of a busy machine: then the second call has not given up. */
const HALF_OUTAGE_MS = scaled(1_500);
/** Where an ask says until when it may be executed: behind its digest, the number of keys, and 4 keys. */
const NOT_AFTER = 2 + 4 + 2;
/** So many late asks in a row end a call that is not in the queue. */
const MAX_LATE_ASKS = 8;

for (const takesIt of [false, true]) {
  const next = takesIt ? "another owner has the lock" : "the lock is free";
  Deno.test(`Lease.release() returns true when the client sends it twice and ${next}`, async () => {
    await using server = await startRedis();
    await using proxy = startProxy(server);
    const url = `redis://${proxy.hostname}:${proxy.port}`;
    const { client, close } = await openRedisClient("ioredis", url);
    const near = await openRedisClient("node-redis", server.url);
    try {
      await using lock = new RedisLock(client, { ttlMs: LONG_TTL_MS });
      await using other = new RedisLock(near.client, { ttlMs: LONG_TTL_MS });
      await warmUp(lock, proxy);
      const heirs: Promise<unknown>[] = [];
      const run = lock.request("n", () => {
        proxy.onReply = () => {
          proxy.onReply = undefined;
          if (takesIt) heirs.push(other.acquire("n"));
          Promise.all(heirs).then(() => proxy.cutAll());
          return "drop";
        };
        return "done";
      });
      assertEquals(await within("it is over", run), "done");
      const lease = takesIt ? await heirs[0] : await other.acquire("n");
      (lease as Awaited<ReturnType<typeof other.acquire>>).throwIfLost();
    } finally {
      await close();
      await near.close();
    }
  });
}

/** Wraps a client. While it is slow, each ask seems to take a second longer than its time limit. */
function slowLink(client: RedisClient) {
  const link = {
    isSlow: false,
    asks: 0,
    client: {
      async send(command: string, args: string[], key: string) {
        if (!link.isSlow || args[0] !== ASK.sha1) return await client.send(command, args, key);
        link.asks++;
        const late = [...args];
        late[NOT_AFTER] = String(Number(late[NOT_AFTER]) - 2 * ASK_LIFE_MS);
        return await client.send(command, late, key);
      },
      get epoch() {
        return client.epoch;
      },
      cluster: client.cluster,
    } satisfies RedisClient,
  };
  return link;
}

Deno.test("RedisLock rejects with LockUnavailableError when every ask reaches the server after its time limit", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const slow = slowLink(client);
    await using lock = new RedisLock(slow.client, { unavailableAfterMs: 1_500 });
    await (await lock.acquire("n")).release();
    slow.isSlow = true;
    const calls = [() => lock.acquire("n"), () => lock.tryAcquire("n")];
    const rejected = calls.map((call) => assertRejects(call, LockUnavailableError));
    await within("they give up", Promise.all(rejected));
    assertLessOrEqual(slow.asks, 2 * MAX_LATE_ASKS, "it pauses after each");
    slow.isSlow = false;
  } finally {
    await close();
  }
});

Deno.test("RedisLock keeps a waiter in the queue however many of its asks reach the server after their time limit", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    let isLate = false;
    let lateAsks = 0;
    const slow: RedisClient = {
      cluster: false,
      get epoch() {
        return client.epoch;
      },
      subscribe: client.subscribe!.bind(client),
      async send(command, args, key) {
        if (!isLate || args[0] !== ASK.sha1) return await client.send(command, args, key);
        lateAsks++;
        return [TOO_LATE, Date.now()];
      },
    };
    await using lock = new RedisLock(slow);
    await using other = new RedisLock(client);
    const held = await other.acquire("n");
    const waiting = lock.acquire("n", { onWait: () => isLate = true });
    waiting.catch(() => {}); // it is awaited later
    await waitUntil("it has asked often", () => lateAsks > 2 * MAX_LATE_ASKS);
    isLate = false;
    await held.release();
    assertEquals(await (await waiting).release(), true);
  } finally {
    await close();
  }
});

Deno.test("RedisLock does not resend a script for a call that was aborted", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const { client: held, gates } = gated(client);
    await using lock = new RedisLock(held, { unavailableAfterMs: 1_000 });
    const gate = new Gate();
    gates.onRequest = gate.first("ask");
    await assertRejects(() => lock.acquire("n"), LockUnavailableError);
    gate.open(); // the server does not know the script yet
    await (await lock.acquire("other")).release();
    const sent = gates.sent.filter(({ copy }) => copy[3] === "lock:n");
    const commands = sent.map(({ script, copy }) => `${copy[0]} ${script}`);
    assertEquals(commands, ["EVALSHA ask"], "nothing is left, so no clean-up is needed");
    assertEquals(await server.command("EXISTS", "lock:n"), 0);
  } finally {
    await close();
  }
});

Deno.test("RedisLock.acquire() keeps waiting when another call gives up while its own ask is unanswered", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const { client: slow, gates } = gated(client);
    await using lock = new RedisLock(slow, {
      unavailableAfterMs: 2 * HALF_OUTAGE_MS,
      ttlMs: LONG_TTL_MS,
    });
    const held = await lock.acquire("n");
    const waiting = [lock.acquire("n"), lock.acquire("n")];
    for (const call of waiting) call.catch(() => {}); // they are awaited later
    const keys = lockKeys("lock:", "n");
    await waitUntil("two wait", async () => await queueLength(server.command, keys) === 2);
    // When the inbox has opened, and from then on, only the first asks, for both.
    await waitUntil("one asks for both", () => {
      const owners = gates.sent.filter(({ script }) => script === "ask").map(({ args }) => args[0]);
      return owners.length >= 6 && new Set(owners.slice(-3)).size === 1;
    });
    const [asked, answers] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    gates.onReply = ({ script }) => {
      if (script !== "ask") return;
      asked.resolve();
      return answers.promise;
    };
    await asked.promise;
    // No condition: half of the time that an outage may last must be over, and nothing is sent meanwhile.
    await pause(HALF_OUTAGE_MS);
    gates.gap();
    await assertRejects(() => waiting[0]!, LockUnavailableError);
    answers.resolve(); // now the other waiter asks, too
    gates.onReply = undefined;
    await held.release();
    const lease = await within("it is granted", waiting[1]!);
    lease.throwIfLost();
  } finally {
    await close();
  }
});

// The rest of a claim is too short for a lease: the first stall of its holder would lose it.
Deno.test("RedisLock.acquire() asks again when its grant message comes after half of its claim", async () => {
  await using server = await startRedis();
  const near = await openRedisClient("node-redis", server.url);
  const far = await openRedisClient("node-redis", server.url);
  const { client, gates } = gated(far.client);
  const claimMs = scaled(2_000);
  try {
    await using holder = new RedisLock(near.client, { ttlMs: LONG_TTL_MS });
    await using lock = new RedisLock(client, { ttlMs: claimMs });
    const held = await holder.acquire("n");
    let isOver = false;
    const call = lock.acquire("n").finally(() => isOver = true);
    await waitUntil("it listens", async () => {
      return (await server.command("PUBSUB", "CHANNELS", "*") as unknown[]).length === 1;
    });
    const [asks, message] = [Promise.withResolvers<void>(), new Gate()];
    let asked = 0;
    gates.onRequest = ({ script }) => {
      if (script !== "ask") return;
      asked++;
      return asks.promise;
    };
    gates.onMessage = () => message.pass();
    await held.release();
    await message.arrived;
    const grantedMs = performance.now();
    // One ask at a time: after the one that is held back, only the grant makes the call ask.
    await waitUntil("it has asked meanwhile", () => asked === 1);
    await waitUntil("half is over", () => performance.now() - grantedMs > claimMs / 2);
    message.open();
    await waitUntil("the message has arrived", () => isOver || asked > 1);
    assertEquals(isOver, false);
    asks.resolve();
    (await within("it is granted", call)).throwIfLost();
  } finally {
    await Promise.all([near.close(), far.close()]);
  }
});

Deno.test("RedisLock rejects all waiters soon after the first one when Redis falls silent", async () => {
  await using server = await startRedis();
  const { client, close } = await openRedisClient("node-redis", server.url);
  try {
    const unavailableAfterMs = scaled(4_000);
    await using lock = new RedisLock(client, { unavailableAfterMs, ttlMs: LONG_TTL_MS });
    await lock.acquire("n");
    let queued = 0;
    const rejectedAtMs: number[] = [];
    const calls = Array.from({ length: 1_000 }, async () => {
      let isQueued = false;
      const onWait = () => void (isQueued ||= ++queued > 0);
      const call = lock.acquire("n", { onWait });
      await assertRejects(() => call, LockUnavailableError);
      rejectedAtMs.push(performance.now());
    });
    await waitUntil("all wait", () => queued === calls.length);
    await server.pause();
    await within("all are rejected", Promise.all(calls), CONDITION_BOUND_MS);
    // Each waiter asks for itself then, but not for the whole time again.
    assertLess(rejectedAtMs.at(-1)! - rejectedAtMs[0]!, unavailableAfterMs);
    await server.resume();
  } finally {
    await close();
  }
});

Deno.test("RedisLock disposal waits for a release whose connection broke", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient("node-redis", url);
  try {
    const lock = new RedisLock(client, {
      ttlMs: LONG_TTL_MS,
      disposeTimeoutMs: CONDITION_BOUND_MS,
    });
    const lease = await lock.acquire("n");
    proxy.onRequest = () => (proxy.onRequest = undefined, "cut");
    const released = lease.release();
    await lock[Symbol.asyncDispose]();
    assertEquals(await released, true);
    assertEquals(await server.command("EXISTS", "lock:n"), 0);
  } finally {
    await close();
  }
});
