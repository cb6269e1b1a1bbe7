/**
 * Faults while many calls wait: lost messages, killed subscribers, flushed scripts, full memory. Every
 * call is granted the lock, never two at once, and in order as long as the queue survives.
 */
import { assert, assertEquals, assertLess } from "@std/assert";
import { lockKeys } from "../../redis/protocol/keys.ts";
import { GRANT_MESSAGE } from "../../redis/protocol/messages.ts";
import { RedisLock } from "../../redis/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { type FaultProxy, startProxy, type Verdict } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { connectResp } from "../../testing/servers/resp.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { median, say } from "../../testing/processes/figures.ts";
import { type Fleet, fourOf, startFifty, WAITERS } from "../../testing/redis/waiter_fleet.ts";
import { explainOrder, traceOrder } from "../../testing/redis/order_trace.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { nothingLeft, provenInboxes } from "../../testing/redis/traces.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** How long each kind of fault goes on, in ms. */
const FAULTY_MS = SOAK ? 60_000 : 1_000;
const CLAIM_MS = 3_000;
const NAME = "n";

// Paces a workload: how long a fault, or the time between two, lasts.
function lasts(ms: number): Promise<void> {
  return pause(ms);
}

/** Whether a chunk contains a grant message. */
function isGrant(chunk: Uint8Array): boolean {
  return new TextDecoder().decode(chunk).includes(`\r\n${GRANT_MESSAGE} `);
}

/** Runs the fleet under faults for a while, then without, until each waiter was granted the lock. */
async function endure(fleet: Fleet, fault: (untilMs: number) => Promise<void>): Promise<void> {
  await waitUntil("the work goes on", () => fleet.grants.length >= WAITERS);
  await fault(performance.now() + FAULTY_MS);
  const soFar = fleet.grants.length;
  await waitUntil("the work goes on", () => fleet.grants.length >= soFar + WAITERS);
  await within("everybody is served", fleet.finish(), CONDITION_BOUND_MS);
  assertEquals(fleet.overlaps, 0);
  assertEquals(fleet.refusals, 0, "each fault was short");
}

/** Loses the grant message of a waiter behind a proxy. Returns how long it then waited. */
async function loseGrant(server: RedisServer, verdict: Verdict): Promise<number> {
  await using proxy = startProxy(server);
  const near = await openRedisClient("node-redis", server.url);
  const far = await openRedisClient("node-redis", `redis://${proxy.hostname}:${proxy.port}`);
  const name = crypto.randomUUID();
  try {
    await using holder = new RedisLock(near.client);
    await using waiter = new RedisLock(far.client);
    const held = await holder.acquire(name);
    const waiting = waiter.acquire(name);
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(server.command, lockKeys("lock:", name).waiters)).length === 1;
    });
    let lost = 0;
    proxy.onReply = (chunk) => isGrant(chunk) && lost++ === 0 ? verdict : "pass";
    const releasedMs = performance.now();
    await held.release();
    const lease = await within("it is granted", waiting);
    const waitedMs = performance.now() - releasedMs;
    assertEquals(lost, 1, "the message was lost");
    assert(lease.remainingMs > CLAIM_MS / 2);
    assertEquals(await holder.tryAcquire(name), null);
    await lease.release();
    return waitedMs;
  } finally {
    await far.close();
    await near.close();
  }
}

for (
  const [title, verdict] of [["is lost", "drop"], ["is lost with its connection", "cut"]] as const
) {
  Deno.test(`RedisLock finds its grant before the claim expires when the message ${title}`, async () => {
    await using server = await startRedis();
    const rounds = Array.from({ length: SOAK ? 20 : 5 }, () => loseGrant(server, verdict));
    const waitedMs = await Promise.all(rounds);
    say(`message ${verdict}: release to grant, median ${median(waitedMs)} ms`);
    assertLess(median(waitedMs), CLAIM_MS);
    await nothingLeft(server);
  });
}

Deno.test("RedisLock grants every waiter the lock while messages are lost at random", async () => {
  const seed = seedOf();
  const random = randomOf(seed);
  await using server = await startRedis();
  {
    await using disposal = new AsyncDisposableStack();
    const trace = disposal.use(await traceOrder(server, NAME));
    const proxies: FaultProxy[] = [];
    for (let i = 0; i < 4; i++) proxies.push(disposal.use(startProxy(server)));
    const fleet = disposal.use(
      await startFifty(proxies.map(({ hostname, port }) => `redis://${hostname}:${port}`), NAME, 1),
    );
    let cuts = 0;
    await endure(fleet, async (untilMs) => {
      for (const proxy of proxies) {
        proxy.onReply = (chunk) => {
          if (!isGrant(chunk) || random() >= 0.05) return "pass";
          cuts++;
          return "cut";
        };
      }
      const isOver = () => performance.now() > untilMs && cuts > 0;
      await waitUntil("time is up, and grants were lost", isOver, FAULTY_MS + CONDITION_BOUND_MS);
      for (const proxy of proxies) proxy.onReply = undefined;
    });
    say(`seed ${seed}, ${cuts} cuts: ${await explainOrder(trace, fleet.grants)}`);
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants every waiter the lock while subscriptions are cut twice a second", async () => {
  await using server = await startRedis();
  {
    using trace = await traceOrder(server, NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME, 1);
    let kills = 0;
    await endure(fleet, async (untilMs) => {
      while (performance.now() < untilMs || kills < 4) {
        kills += Number(await server.command("CLIENT", "KILL", "TYPE", "pubsub"));
        await lasts(500);
      }
    });
    assert(kills >= 4);
    say(`${kills} kills: ${await explainOrder(trace, fleet.grants)}`);
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants the lock in order while another client subscribes to all channels", async () => {
  await using server = await startRedis();
  {
    using monitor = await connectResp(server.url);
    await monitor.command("PSUBSCRIBE", "*");
    let heard = 0;
    const listening = (async () => {
      for (;;) heard += (await monitor.next() as string[])[0] === "pmessage" ? 1 : 0;
    })();
    listening.catch(() => {}); // it ends with its connection
    using trace = await traceOrder(server, NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME);
    await endure(fleet, (untilMs) => lasts(untilMs - performance.now()));
    say(`${fleet.grants.length} grants, ${heard} messages heard`);
    assert(heard > 0);
    say(await explainOrder(trace, fleet.grants));
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants the lock in order while scripts are flushed at random", async () => {
  const seed = seedOf();
  const random = randomOf(seed);
  await using server = await startRedis();
  {
    using trace = await traceOrder(server, NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME);
    await endure(fleet, async (untilMs) => {
      while (performance.now() < untilMs) {
        await server.command("SCRIPT", "FLUSH");
        await lasts(random() * 20);
      }
    });
    const times = await refused(server, "NOSCRIPT");
    say(`seed ${seed}: ${fleet.grants.length} grants, ${times} times NOSCRIPT`);
    assert(times > 0);
    say(await explainOrder(trace, fleet.grants));
  }
  await nothingLeft(server);
});

Deno.test("RedisLock grants the lock in order while memory is full at random", async () => {
  const seed = seedOf();
  const random = randomOf(seed);
  await using server = await startRedis();
  {
    using trace = await traceOrder(server, NAME);
    await using fleet = await startFifty(fourOf(server.url), NAME);
    const before = await refused(server, "OOM", OF_A_SCRIPT);
    await endure(fleet, async (untilMs) => {
      while (performance.now() < untilMs) {
        await server.command("CONFIG", "SET", "maxmemory", 1);
        await lasts(random() * 100);
        await server.command("CONFIG", "SET", "maxmemory", 0);
        await lasts(random() * 100);
      }
    });
    const times = await refused(server, "OOM", OF_A_SCRIPT) - before;
    say(`seed ${seed}: ${fleet.grants.length} grants, ${times} times OOM`);
    assert(times > 0);
    say(await explainOrder(trace, fleet.grants));
  }
  await nothingLeft(server);
});

/** Redis before 7.0 counts every refusal inside a script under this code. */
const OF_A_SCRIPT = "ERR";

/** How often the server has refused commands with one of these error codes. */
async function refused(server: RedisServer, ...codes: string[]): Promise<number> {
  const info = String(await server.command("INFO", "errorstats"));
  const counts = codes.map((code) => new RegExp(`errorstat_${code}:count=(\\d+)`).exec(info)?.[1]);
  return counts.reduce((sum, count) => sum + Number(count ?? 0), 0);
}
