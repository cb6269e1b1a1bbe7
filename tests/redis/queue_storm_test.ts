/**
 * All faults at once: frozen processes, cut connections, flushed scripts, full memory, a paused server,
 * and waiters that time out.
 */
import { assertEquals } from "@std/assert";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { pause, waitUntil } from "../../testing/servers/wait.ts";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { explainOrder, traceOrder } from "../../testing/redis/order_trace.ts";
import { nothingAtLast } from "../../testing/redis/traces.ts";
import { overlaps, startWorker, type Worker } from "../../testing/processes/workers.ts";
import { ENDING_TTL_MS } from "../../testing/time.ts";

/** The soak runs the full figure. */
const STORM_MS = Deno.env.get("HOLDFAST_SOAK") ? 120_000 : 3_000;
const TTL_MS = ENDING_TTL_MS;

// Paces a workload: how long a fault lasts.
function lasts(ms: number): Promise<void> {
  return pause(ms);
}

type Fault = (workers: readonly Worker[], server: RedisServer, random: () => number) => unknown;

const FAULTS: Fault[] = [
  async (workers, _server, random) => {
    const worker = workers[Math.floor(random() * workers.length)]!;
    worker.kill("SIGSTOP");
    await lasts(random() * TTL_MS * 1.5);
    worker.kill("SIGCONT");
  },
  (_workers, { command }) => command("CLIENT", "KILL", "TYPE", "pubsub"),
  (_workers, server) => killCommandConnections(server),
  (_workers, { command }) => command("SCRIPT", "FLUSH"),
  async (_workers, { command }, random) => {
    await command("CONFIG", "SET", "maxmemory", 1);
    await lasts(random() * 200);
    await command("CONFIG", "SET", "maxmemory", 0);
  },
  async (_workers, server, random) => {
    await server.pause();
    await lasts(random() * 300);
    await server.resume();
  },
];

/** All clients except the two observers: this connection, and the order trace. */
async function killCommandConnections({ command }: RedisServer): Promise<void> {
  const own = await command("CLIENT", "ID");
  const list = String(await command("CLIENT", "LIST", "TYPE", "normal")).trim().split("\n");
  for (const line of list) {
    const [, id, flags] = /^id=(\d+) .* flags=(\w+) /.exec(line)!;
    if (Number(id) !== own && !flags!.includes("O")) await command("CLIENT", "KILL", "ID", id!);
  }
}

Deno.test("RedisLock never has two holders and grants every waiter the lock under all faults at once", async () => {
  const seed = seedOf();
  say(`seed ${seed}`);
  const random = randomOf(seed);
  await using server = await startRedis();
  const trace = await traceOrder(server, "n");
  const workers = (["node-redis", "ioredis", "deno-redis-like"] as const).map((client, i) => {
    const common = { client, url: server.url, keyPrefix: "lock:", ttlMs: TTL_MS };
    const spec = { strategy: "redis", ...common } as const;
    return startWorker({ spec, name: "n", waiters: 12, aborts: true, seed: seed + i, holdMs: 2 });
  });
  const grants = () => workers.flatMap(({ grants }) => grants);
  const goesOn = async () => {
    const soFar = grants().length;
    await waitUntil("the work goes on", () => grants().length >= soFar + 20);
  };
  try {
    await goesOn();
    for (const untilMs = performance.now() + STORM_MS; performance.now() < untilMs;) {
      await FAULTS[Math.floor(random() * FAULTS.length)]!(workers, server, random);
      await goesOn();
    }
    const served = workers.map((worker) => worker.finish());
    assertEquals(await Promise.all(served), [0, 0, 0]);
    assertEquals(overlaps(grants()), 0, `seed ${seed}`);
    assertEquals(new Set(grants().map(({ token }) => token)).size, grants().length);
    say(await explainOrder(trace, grants()));
  } finally {
    trace[Symbol.dispose]();
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
  await nothingAtLast(server, TTL_MS);
});
