/**
 * What a Redis lock costs, as ratios of runs that are interleaved with the least that could do the
 * job: `deno task bench`. Starts a server of its own.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { createClient } from "redis";
import { RedisLock } from "../redis/mod.ts";
import { nodeRedis } from "../redis/clients/node_redis.ts";
import { inTurns, summary, timed } from "./compare.ts";
import { startRedis } from "../tests/servers/redis.ts";

const ROUNDS = 15;
/** Compare and delete: the release of any lock on Redis. */
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";

type Client = ReturnType<typeof createClient>;

async function connect(url: string): Promise<Client> {
  const client = createClient({ url }).on("error", () => {}) as Client;
  await client.connect();
  return client;
}

/** Runs two jobs in turns; prints their medians and the median of the ratios. */
async function compare(
  name: string,
  steps: number,
  ours: (steps: number) => Promise<void>,
  least: (steps: number) => Promise<void>,
): Promise<number> {
  for (const job of [ours, least]) await job(steps);
  const rows = await inTurns(ROUNDS, [() => timed(steps, ours), () => timed(steps, least)]);
  const { us, ratio } = summary(rows, 1);
  const oursUs = summary(rows, 0).us;
  console.log(
    `${name}: ${oursUs.toFixed(0)} µs, least ${us.toFixed(0)} µs, ratio ${ratio.toFixed(2)}`,
  );
  return oursUs;
}

/** Acquire and release, against SET NX PX and a compare-and-delete script. */
async function uncontended(url: string): Promise<void> {
  const client = await connect(url);
  const locks = new RedisLock(nodeRedis(client));
  const sha = String(await client.sendCommand(["SCRIPT", "LOAD", RELEASE]));
  await compare("uncontended acquire and release", 500, async (steps) => {
    for (let i = 0; i < steps; i++) await (await locks.acquire("n")).release();
  }, async (steps) => {
    for (let i = 0; i < steps; i++) {
      const token = crypto.randomUUID();
      await client.sendCommand(["SET", "least", token, "NX", "PX", "10000"]);
      await client.sendCommand(["EVALSHA", sha, "1", "least", token]);
    }
  });
  await locks[Symbol.asyncDispose]();
  client.destroy();
}

/** So many waiters on two clients hand a lock round. */
async function handoff(url: string, waiters: number): Promise<(steps: number) => Promise<void>> {
  const clients = [await connect(url), await connect(url)];
  const locks = clients.map((client) => new RedisLock(nodeRedis(client), { ttlMs: 60_000 }));
  let left = 0;
  let finished = () => {};
  const wait = async (lock: RedisLock): Promise<void> => {
    for (;;) {
      const lease = await lock.acquire(`n${waiters}`);
      if (--left === 0) finished();
      while (left <= 0) await new Promise<void>((resolve) => paused.push(resolve));
      await lease.release();
    }
  };
  const paused: (() => void)[] = [];
  for (let i = 0; i < waiters; i++) wait(locks[i % 2]!).catch(() => {});
  return (steps) => {
    left = steps;
    const done = new Promise<void>((resolve) => finished = resolve);
    for (const resume of paused.splice(0)) resume();
    return done;
  };
}

/** Two clients wake each other in turns; each turn also sends one SET NX PX. */
async function pingPong(url: string): Promise<(steps: number) => Promise<void>> {
  const clients = [await connect(url), await connect(url)];
  const subscribers = clients.map((client) => client.duplicate().on("error", () => {}));
  let left = 0;
  let finished = () => {};
  const turn = (me: number) => {
    if (--left <= 0) return finished();
    clients[me]!.sendCommand(["SET", "turn", String(left), "NX", "PX", "10000"]);
    clients[me]!.sendCommand(["PUBLISH", `turn:${1 - me}`, "x"]);
  };
  for (const [i, subscriber] of subscribers.entries()) {
    await subscriber.connect();
    await subscriber.subscribe(`turn:${i}`, () => turn(i));
  }
  return (steps) => {
    left = steps;
    const done = new Promise<void>((resolve) => finished = resolve);
    turn(0);
    return done;
  };
}

if (import.meta.main) {
  const server = await startRedis();
  await uncontended(server.url);
  const least = await pingPong(server.url);
  const costs: Record<number, number> = {};
  for (const waiters of [2, 10, 100, 1_000]) {
    const name = `handoff with ${waiters} waiters`;
    costs[waiters] = await compare(name, 2_000, await handoff(server.url, waiters), least);
  }
  console.log(`1,000 waiters against 10: ${(costs[1_000]! / costs[10]!).toFixed(2)}`);
  await server[Symbol.asyncDispose]();
  Deno.exit(0);
}
