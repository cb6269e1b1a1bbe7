/**
 * What a Redis lock costs, as ratios of runs that are interleaved with the least that could do the
 * job: `deno task bench`. Starts a server of its own.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { RedisLock } from "../redis/mod.ts";
import { startRedis } from "../tests/servers/redis.ts";
import { inTurns, summary, timed } from "./compare.ts";
import { CLIENTS, type Connect } from "./redis_clients.ts";

const ROUNDS = 15;
/** Compare and delete: the release of any lock on Redis. */
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";

type Job = (steps: number) => Promise<void>;

/** Runs two jobs in turns; prints their medians and the median of the ratios. */
async function compare(name: string, steps: number, ours: Job, least: Job): Promise<void> {
  for (const job of [ours, least]) await job(steps);
  const rows = await inTurns(ROUNDS, [() => timed(steps, ours), () => timed(steps, least)]);
  const { us, ratio } = summary(rows, 1);
  const oursUs = summary(rows, 0).us;
  console.log(
    `${name}: ${oursUs.toFixed(0)} µs, against ${us.toFixed(0)} µs, ratio ${ratio.toFixed(2)}`,
  );
}

/** Acquire and release, against SET NX PX and a compare-and-delete script. */
async function uncontended(connect: Connect): Promise<void> {
  await using client = await connect();
  await using locks = new RedisLock(client.port);
  const sha = String(await client.send("SCRIPT", "LOAD", RELEASE));
  await compare("uncontended acquire and release", 500, async (steps) => {
    for (let i = 0; i < steps; i++) await (await locks.acquire("n")).release();
  }, async (steps) => {
    for (let i = 0; i < steps; i++) {
      const token = crypto.randomUUID();
      await client.send("SET", "least", token, "NX", "PX", "10000");
      await client.send("EVALSHA", sha, "1", "least", token);
    }
  });
}

/** So many waiters on two clients hand a lock round. */
async function handoff(connect: Connect, waiters: number): Promise<Job> {
  const clients = [await connect(), await connect()];
  const locks = clients.map(({ port }) => new RedisLock(port, { ttlMs: 60_000 }));
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
async function pingPong(connect: Connect): Promise<Job> {
  const clients = [await connect(), await connect()];
  let left = 0;
  let finished = () => {};
  const turn = (me: number) => {
    if (--left <= 0) return finished();
    clients[me]!.send("SET", "turn", String(left), "NX", "PX", "10000");
    clients[me]!.send("PUBLISH", `turn:${1 - me}`, "x");
  };
  for (const [i, client] of clients.entries()) await client.subscribe(`turn:${i}`, () => turn(i));
  return (steps) => {
    left = steps;
    const done = new Promise<void>((resolve) => finished = resolve);
    turn(0);
    return done;
  };
}

if (import.meta.main) {
  for (const [name, connect] of Object.entries(CLIENTS)) {
    console.log(`with ${name}`);
    const server = await startRedis();
    const connected = () => connect(server.url);
    await uncontended(connected);
    const least = await pingPong(connected);
    const jobs = new Map<number, Job>();
    for (const waiters of [2, 10, 100, 1_000]) {
      const job = await handoff(connected, waiters);
      jobs.set(waiters, job);
      await compare(`handoff with ${waiters} waiters`, 2_000, job, least);
    }
    await compare("1,000 waiters against 10", 2_000, jobs.get(1_000)!, jobs.get(10)!);
    await server[Symbol.asyncDispose]();
  }
  Deno.exit(0);
}
