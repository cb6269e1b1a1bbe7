/**
 * Measures what subscribers of the channels cost in a cycle of acquire and release on Redis: the recorder of
 * `./timeline`, and `./otel` with the SDK that Deno has built in. Each round measures all of them in turn.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import process from "node:process";
import v8 from "node:v8";
import { createClient } from "redis";
import { instrumentLocks } from "../otel/mod.ts";
import { nodeRedis, type NodeRedisClient } from "../redis/clients/node_redis.ts";
import { RedisLock } from "../redis/mod.ts";
import { startRedis } from "../testing/servers/redis.ts";
import { recordLocks } from "../timeline/mod.ts";

const ROUNDS = 15;
const CYCLES = 2_000;

interface Cost {
  readonly cpuUs: number;
  readonly bytes: number;
}

/** What is subscribed in a round. */
const SUBSCRIBERS: Readonly<Record<string, () => Disposable | AsyncDisposable | null>> = {
  "nothing": () => null,
  "nothing, again": () => null,
  "recordLocks()": () => recordLocks({ write: () => {} }),
  "instrumentLocks()": () => instrumentLocks({ nameTemplate: () => "bench" }),
};

if (import.meta.main) await (Deno.args[0] === undefined ? start() : measure(Deno.args[0]));

/** Starts Redis and a receiver of telemetry, and this program once more, with the SDK on. */
async function start(): Promise<void> {
  await using redis = await startRedis();
  await using receiver = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, () => {
    return new Response("{}", { headers: { "content-type": "application/json" } });
  });
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", import.meta.filename!, redis.url],
    env: {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.addr.port}`,
    },
  }).output().then(({ code, stdout }) => {
    Deno.stdout.writeSync(stdout);
    return { code };
  });
  if (code !== 0) process.exitCode = 1;
}

async function measure(url: string): Promise<void> {
  const client = createClient({ url, commandOptions: { timeout: 0 } });
  await client.connect();
  const costs = new Map<string, Cost[]>(Object.keys(SUBSCRIBERS).map((name) => [name, []]));
  {
    await using locks = new RedisLock(nodeRedis(client as unknown as NodeRedisClient));
    for (let round = -2; round < ROUNDS; round++) {
      for (const [name, subscribe] of Object.entries(SUBSCRIBERS)) {
        await using stack = new AsyncDisposableStack();
        const subscribed = subscribe();
        if (subscribed !== null) stack.use(subscribed);
        const cost = await costOf(locks);
        if (round >= 0) costs.get(name)!.push(cost);
      }
    }
  }
  client.destroy();
  const base = costs.get("nothing")!;
  for (const [name, rounds] of costs) {
    const ratios = rounds.map(({ cpuUs }, index) => cpuUs / base[index]!.cpuUs);
    const [low, mid, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(3));
    const cpuUs = quantile(rounds.map(({ cpuUs }) => cpuUs), 0.5).toFixed(1);
    const bytes = quantile(rounds.map(({ bytes }) => bytes), 0.5).toFixed(0);
    console.log(
      `${name.padEnd(18)} ${cpuUs} µs, ${bytes} bytes per cycle; CPU × ${mid} (${low} to ${high})`,
    );
  }
}

async function costOf(locks: RedisLock): Promise<Cost> {
  const bytes = allocatedBytes();
  const cpu = process.cpuUsage();
  for (let i = 0; i < CYCLES; i++) await (await locks.acquire("n")).release();
  const { user, system } = process.cpuUsage(cpu);
  return { cpuUs: (user + system) / CYCLES, bytes: (allocatedBytes() - bytes) / CYCLES };
}

function allocatedBytes(): number {
  return Number((v8.getHeapStatistics() as object as Record<string, number>).total_allocated_bytes);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.round(share * (sorted.length - 1))]!;
}
