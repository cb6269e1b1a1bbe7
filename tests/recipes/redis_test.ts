/** The recipes on Redis: marks that survive their process, and what went wrong with leaders of n8n. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Lease, LeaseLostError, LockUnavailableError } from "../../mod.ts";
import { lead, type LeaderChange, runOnce } from "../../recipes/mod.ts";
import { openLock } from "../../testing/conformance/open_lock.ts";
import { redisHarness } from "../../testing/conformance/redis_harness.ts";
import { recipes } from "../../testing/recipes/suite.ts";
import { untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { FAULT_TTL_MS, KEPT_TTL_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

recipes(redisHarness("node-redis"));

function specOf(url: string, label?: string) {
  const { ttlMs, keyPrefix } = { ttlMs: FAULT_TTL_MS, keyPrefix: "lock:" };
  return { strategy: "redis", client: "node-redis", url, keyPrefix, ttlMs, label } as const;
}

Deno.test("runOnce() renews its lease, but does not keep the lock for longer than keepMs by that", async () => {
  await using server = await startRedis();
  await using client = await openLock(specOf(server.url));
  const keepMs = scaled(1_500);
  const leftMs = async () => Number(await server.command("PTTL", "lock:report"));
  await untilShown(async () => {
    using stalls = watchStalls();
    const startMs = performance.now();
    let heldMs = 0;
    const lost = await runOnce(client.lock, "report", { keepMs }, async (lease) => {
      heldMs = performance.now();
      await waitUntil("a renewal is due", () => performance.now() - heldMs > keepMs * 0.4);
      lease.throwIfLost();
    }).then(() => null, (error: unknown) => error);
    const hasStalled = stalls.longestMs > keepMs / 4; // a renewal that came late lasts longer, too
    if (lost !== null && !(hasStalled && lost instanceof LeaseLostError)) throw lost;
    // A renewal that asked for all of keepMs again would end a third later, at least.
    const mostMs = Math.max(0, heldMs + keepMs * 1.25 - performance.now());
    assert(await leftMs() <= mostMs || hasStalled, "the mark must not last longer");
    await waitUntil("the lock is free", async () => await leftMs() < 0);
    if (hasStalled) return "stalled";
    assert(performance.now() >= startMs + keepMs);
    return "shown";
  });
});

Deno.test("runOnce() leaves no mark behind when the reply to its try is lost", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const spec = specOf(`redis://${proxy.hostname}:${proxy.port}`);
  await using client = await openLock({ ...spec, unavailableAfterMs: scaled(1_000) });
  const options = { keepMs: LONG_TTL_MS };
  await runOnce(client.lock, "warm", options, () => {});
  proxy.blackHole("to-client");
  const run = () => runOnce(client.lock, "report", options, () => "ran");
  await assertRejects(run, LockUnavailableError);
  assertEquals(await server.command("EXISTS", "lock:report"), 1, "the try was executed");
  proxy.heal();
  // Else nobody would run this tick, for as long as keepMs.
  await waitUntil("another try gets the lock", async () => (await run()).ran, LONG_TTL_MS / 2);
});

/** A log of what several candidates are told, in one order. */
function candidates() {
  const log: string[] = [];
  const leases = new Map<string, Lease>();
  const running = new Map<string, number>();
  const stopped = new AbortController();
  const ended: Promise<void>[] = [];
  return {
    log,
    leases,
    stand(who: string, locks: Parameters<typeof lead>[0]) {
      const onChange = (change: LeaderChange) => {
        log.push(`${who} ${change.state}`);
        if (change.state === "leading") leases.set(who, change.lease);
        // The listener that stops the work must not see itself as the leader (n8n 8401).
        if (change.state === "lost" && !stopped.signal.aborted) {
          assertEquals(leases.get(who)!.isHeld, false);
        }
      };
      ended.push(lead(locks, "main", async (_lease, signal) => {
        running.set(who, (running.get(who) ?? 0) + 1);
        assertEquals(running.get(who), 1, "the work runs once at a time");
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        running.set(who, 0);
      }, { signal: stopped.signal, onChange }));
    },
    has: (line: string) => waitUntil(line, () => log.includes(line)),
    running: () => [...running].filter(([, count]) => count > 0).map(([who]) => who),
    async [Symbol.asyncDispose]() {
      stopped.abort();
      await Promise.all(ended);
    },
  };
}

Deno.test("lead() tells a leader that another process leads now (n8n 7964)", async () => {
  await using server = await startRedis();
  await using one = await openLock(specOf(server.url));
  await using two = await openLock(specOf(server.url));
  await using cast = candidates();
  cast.stand("one", one.lock);
  await cast.has("one leading");
  cast.stand("two", two.lock);
  await cast.has("two waiting");
  // The key exists all the time, but it is that of the other one.
  await two.lock.request("main", { steal: true }, () => cast.has("one lost"));
  await cast.has("two leading");
  await cast.has("one waiting");
  assertEquals(cast.running(), ["two"]);
});

Deno.test("lead() ends the work before it leads again when the key has vanished (n8n 8401)", async () => {
  await using server = await startRedis();
  await using one = await openLock(specOf(server.url));
  await using cast = candidates();
  cast.stand("one", one.lock);
  await cast.has("one leading");
  await server.command("DEL", "lock:main");
  await waitUntil("it leads again", () => cast.log.length >= 4);
  assertEquals(cast.log, ["one leading", "one lost", "one waiting", "one leading"]);
  assertEquals(cast.running(), ["one"]);
});

Deno.test("lead() starts the work of a process that finds the lock of its own last life (n8n 27126)", async () => {
  await using server = await startRedis();
  const spec = specOf(server.url, "main-0");
  {
    await using before = await openLock(spec);
    await before.lock.request("other", () => {});
  }
  await using after = await openLock(spec);
  await using cast = candidates();
  // As if it were killed: nothing releases the lock.
  const value = "main-0/a-lease-of-the-killed-process";
  await server.command("SET", "lock:main", value, "PX", scaled(1_500));
  cast.stand("main-0", after.lock);
  await cast.has("main-0 leading");
  assertEquals(cast.log, ["main-0 waiting", "main-0 leading"]);
  await waitUntil("the work runs", () => cast.running().length > 0);
});

Deno.test("lead() tells each change once while replies take longer than renewals (n8n 29696)", async () => {
  await using server = await startRedis();
  await using proxy = startProxy(server);
  const ttlMs = scaled(1_500); // it ends, and passes again
  const spec = specOf(`redis://${proxy.hostname}:${proxy.port}`);
  await using one = await openLock({ ...spec, ttlMs });
  await using two = await openLock({ ...specOf(server.url), ttlMs: KEPT_TTL_MS });
  await using cast = candidates();
  cast.stand("one", one.lock);
  await cast.has("one leading");
  cast.stand("two", two.lock);
  await cast.has("two waiting");
  proxy.onReply = () => ({ delayMs: ttlMs });
  await cast.has("two leading");
  assert(cast.log.indexOf("one lost") < cast.log.indexOf("two leading"), cast.log.join());
  proxy.onReply = undefined;
  await cast.has("one waiting");
  // No condition: late renewals of the first must not change anything.
  await pause(ttlMs);
  assertEquals(cast.log.filter((line) => line.startsWith("two")), ["two waiting", "two leading"]);
  const ofOne = cast.log.filter((line) => line.startsWith("one"));
  assertEquals(ofOne, ["one leading", "one lost", "one waiting"]);
  assertEquals(cast.leases.get("two")!.isHeld, true);
});
