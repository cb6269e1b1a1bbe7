/**
 * First come, first served, across processes.
 */
import { assert, assertEquals } from "@std/assert";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { say } from "../../testing/processes/figures.ts";
import { explainOrder, type OrderTrace, traceOrder } from "../../testing/redis/order_trace.ts";
import { nothingLasts, onlyFencesLeft } from "../../testing/redis/traces.ts";
import { type Grant, startWorker, type Worker } from "../../testing/processes/workers.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const GRANTS = Deno.env.get("HOLDFAST_SOAK") ? 20_000 : 600;
const TTL_MS = LONG_TTL_MS;
const NAME = "n";
const PROCESSES = 4;
const WAITERS = 50;
const SEED = Number(Deno.env.get("HOLDFAST_SEED") ?? 20_261_120);
const BOUND_MS = LONG_BOUND_MS;

function start(server: RedisServer, aborts: boolean): Worker[] {
  const spec = {
    strategy: "redis",
    client: "node-redis",
    url: server.url,
    keyPrefix: "lock:",
    ttlMs: TTL_MS,
    unavailableAfterMs: CONDITION_BOUND_MS,
  } as const;
  return Array.from({ length: PROCESSES }, (_, i) => {
    const waiters = Math.floor((WAITERS + i) / PROCESSES);
    return startWorker({ spec, name: NAME, waiters, aborts, seed: SEED + i });
  });
}

function all(workers: readonly Worker[]): Grant[] {
  return workers.flatMap(({ grants }) => grants);
}

/** Asserts that tokens are unique and that no waiter was overtaken. */
async function check(trace: OrderTrace, grants: readonly Grant[]): Promise<void> {
  assertEquals(new Set(grants.map(({ token }) => token)).size, grants.length);
  assert(grants.length >= GRANTS);
  say(await explainOrder(trace, grants));
}

Deno.test("RedisLock grants the lock in order when waiters are in several processes", async () => {
  await using server = await startRedis();
  const trace = await traceOrder(server, NAME);
  const workers = start(server, false);
  try {
    await waitUntil("enough were granted", () => all(workers).length >= GRANTS, BOUND_MS);
    for (const worker of workers) assertEquals(await worker.finish(), 0);
    await check(trace, all(workers));
  } finally {
    trace[Symbol.dispose]();
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  await onlyFencesLeft(server, TTL_MS);
});

Deno.test("RedisLock grants the lock in order when waiters time out and processes are killed", async () => {
  say(`seed ${SEED}`);
  await using server = await startRedis();
  const trace = await traceOrder(server, NAME);
  const workers = start(server, true);
  try {
    const reached = (share: number) => () => all(workers).length >= GRANTS * share;
    await waitUntil("the work goes on", reached(0.3), BOUND_MS);
    workers[0]!.kill("SIGKILL");
    await waitUntil("the work goes on", reached(0.6), BOUND_MS);
    workers[1]!.kill("SIGKILL");
    await waitUntil("enough were granted", reached(1), BOUND_MS);
    for (const worker of workers.slice(2)) assertEquals(await worker.finish(), 0);
    await check(trace, all(workers));
  } finally {
    trace[Symbol.dispose]();
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  await nothingLasts(server, TTL_MS);
});
