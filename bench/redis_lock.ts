/**
 * `deno task bench redis`: measures Redis locks in rounds interleaved with the least work that could do
 * the same job. Starts its own server.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { RedisLock } from "../redis/mod.ts";
import { startRedis } from "../testing/servers/redis.ts";
import { inTurns, judged, summary, timed } from "./compare.ts";
import { CLIENTS, type Connect } from "./redis_clients.ts";

const ROUNDS = 15;
/** Rounds that are not measured: services run code that is already compiled. */
const WARM_UP_ROUNDS = 5;
/** Compare and delete: the release of any lock on Redis. */
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";

type Job = (steps: number) => Promise<void>;

/** The greatest allowed ratios. */
const LIMITS = { uncontended: 1.5, handoff: 2.2, growth: 1.3 };

/** Two jobs, and the greatest allowed ratio of their times. */
interface Comparison {
  readonly steps: number;
  readonly ours: Job;
  readonly least: Job;
  readonly limit: number;
}

/** Runs two jobs in turns; prints their medians and the median of the ratios. */
async function compare(name: string, { steps, ours, least, limit }: Comparison): Promise<boolean> {
  const jobs = [ours, least].map((job) => () => timed(steps, job));
  await inTurns(WARM_UP_ROUNDS, jobs);
  const rows = await inTurns(ROUNDS, jobs);
  const { us, ratio } = summary(rows, 1);
  const oursUs = summary(rows, 0).us;
  const { text, isWithin } = judged(ratio, limit);
  console.log(`${name}: ${oursUs.toFixed(0)} µs, against ${us.toFixed(0)} µs, ${text}`);
  return isWithin;
}

/** Acquire and release, against SET NX PX and a compare-and-delete script. */
async function uncontended(connect: Connect): Promise<boolean> {
  await using client = await connect();
  await using locks = new RedisLock(client.port);
  const sha = String(await client.send("SCRIPT", "LOAD", RELEASE));
  const ours = async (steps: number) => {
    for (let i = 0; i < steps; i++) await (await locks.acquire("n")).release();
  };
  const least = async (steps: number) => {
    for (let i = 0; i < steps; i++) {
      const token = crypto.randomUUID();
      await client.send("SET", "least", token, "NX", "PX", "10000");
      await client.send("EVALSHA", sha, "1", "least", token);
    }
  };
  const limit = LIMITS.uncontended;
  return await compare("uncontended acquire and release", { steps: 1_000, ours, least, limit });
}

/** `waiters` waiters on two clients pass a lock around. */
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

async function measure(connect: (url: string) => ReturnType<Connect>): Promise<boolean[]> {
  await using server = await startRedis();
  const connected = () => connect(server.url);
  const verdicts = [await uncontended(connected)];
  const least = await pingPong(connected);
  const jobs = new Map<number, Job>();
  const steps = 2_000;
  for (const waiters of [2, 10, 100, 1_000]) {
    const ours = await handoff(connected, waiters);
    jobs.set(waiters, ours);
    const comparison = { steps, ours, least, limit: LIMITS.handoff };
    verdicts.push(await compare(`handoff with ${waiters} waiters`, comparison));
  }
  const [ours, few] = [jobs.get(1_000)!, jobs.get(10)!];
  const growth = { steps, ours, least: few, limit: LIMITS.growth };
  return [...verdicts, await compare("1,000 waiters against 10", growth)];
}

if (import.meta.main) {
  const verdicts: boolean[] = [];
  for (const [name, connect] of Object.entries(CLIENTS)) {
    console.log(`with ${name}`);
    verdicts.push(...await measure(connect));
  }
  Deno.exit(verdicts.every(Boolean) ? 0 : 1); // the clients' connections are still open
}
