/**
 * A network that swallows everything while a lease is held.
 */
import { assert, assertEquals } from "@std/assert";
import { LeaseLostError, type RenewalLate } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { type TracedEvents, traceEvents } from "../../testing/core/traced_events.ts";
import type { RedisClientName } from "../../testing/conformance/open_lock.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { openRedisClient } from "../../testing/redis/clients.ts";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { scaled } from "../../testing/time.ts";

/** The soak runs the full figure. */
const RUNS = Deno.env.get("HOLDFAST_SOAK") ? 20 : 3;
const TTL_MS = scaled(2_000);

// Paces a workload: the fault strikes at any moment between two renewals.
function someTime(): Promise<void> {
  return pause(Math.random() * TTL_MS / 2);
}

/** Returns whether the machine stalled at a moment at which nobody could warn once: then it shows nothing. */
async function run(
  server: RedisServer,
  clientName: RedisClientName,
  events: TracedEvents,
): Promise<Shown> {
  await using proxy = startProxy(server);
  const url = `redis://${proxy.hostname}:${proxy.port}`;
  const { client, close } = await openRedisClient(clientName, url);
  const name = crypto.randomUUID();
  try {
    const late: RenewalLate[] = [];
    const onRenewalLate = (event: RenewalLate) => {
      late.push(event);
      throw new Error("A warning that fails");
    };
    await using lock = new RedisLock(client, {
      ttlMs: TTL_MS,
      disposeTimeoutMs: 50,
      onRenewalLate,
    });
    const lease = await lock.acquire(name);
    const { signal } = lease;
    await someTime();
    const { epoch } = client;
    if (late.length > 0) return "stalled"; // the server did: the warning came before the fault
    using stalls = watchStalls();
    proxy.blackHole("both");
    await waitUntil("the key is gone", async () => {
      return await server.command("EXISTS", `lock:${name}`) === 0;
    });
    assertEquals(lease.remainingMs, 0);
    await waitUntil("the lease is lost", () => signal.aborted);
    assert(signal.reason instanceof LeaseLostError);
    assertEquals(signal.reason.reason, "unreachable");
    if (late.length === 0 && stalls.longestMs > TTL_MS / 4) return "stalled";
    assertEquals(late.map((event) => event.name), [name], "it was announced once");
    assert(late[0]!.remainingMs > 0 && late[0]!.remainingMs <= TTL_MS / 3);
    const published = (channel: "renewalLate" | "lost") =>
      events.of(channel).filter((event) => event.name === name);
    assertEquals(published("renewalLate").map(({ remainingMs }) => remainingMs), [
      late[0]!.remainingMs,
    ]);
    assertEquals(published("lost").map(({ reason }) => reason), ["unreachable"]);
    if (clientName !== "deno-redis-like") {
      assertEquals(client.epoch, epoch, "the client package still believes in its connection");
    }
    return "shown";
  } finally {
    proxy.cutAll();
    await close();
  }
}

for (const client of ["node-redis", "ioredis", "deno-redis-like"] as const) {
  Deno.test(`RedisLock × ${client}: a lease is lost at its deadline when the network swallows everything`, async () => {
    await using server = await startRedis();
    using events = traceEvents();
    const runs = Array.from({ length: RUNS }, () => untilShown(() => run(server, client, events)));
    await Promise.all(runs);
  });
}
