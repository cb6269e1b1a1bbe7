/**
 * Runs each operation of the Redis locks alone and counts its commands, arguments and inner calls.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import type { RedisClient, RedisLock } from "../../redis/mod.ts";
import type { OperationCost } from "./jobs.ts";
import { type Monitor, openMonitor } from "./monitor.ts";
import { portWith, type Version } from "./version.ts";

/** The first run loads the scripts. A poll that falls into an operation only adds to its cost. */
const RUNS = 4;
/** Long enough that nothing is renewed automatically while an operation is counted. */
const TTL_MS = 60_000;

/** Runs an operation and notes its cost. */
type Count = (operation: string, run: () => Promise<unknown>) => Promise<void>;

/** The least cost of each operation in several runs. */
export async function countOperations(version: Version): Promise<OperationCost[]> {
  await using monitor = await openMonitor(version.arguments.redisUrl);
  const port = await version.port();
  await using holder = version.lock(port, { ttlMs: TTL_MS });
  await warmUp(holder, monitor);
  const least = new Map<string, OperationCost>();
  for (let run = 0; run < RUNS; run++) {
    const count: Count = async (operation, action) => {
      const cost = await monitor.cost(operation, action);
      const known = least.get(operation);
      if (known === undefined || sizeOf(cost) < sizeOf(known)) least.set(operation, cost);
    };
    const gate = gatedInbox(port);
    await using waiter = version.lock(gate.port, { ttlMs: TTL_MS });
    await warmUp(waiter, monitor);
    await countUncontended(holder, `free:${run}`, count);
    await countContended({ holder, waiter, gate, name: `held:${run}` }, count);
    await countSteal(holder, waiter, `stolen:${run}`, count);
  }
  return [...least.values()];
}

function sizeOf({ commands, keys, args, calls }: OperationCost): number {
  return commands + keys + args + calls.length;
}

/** The first answer teaches an instance the server's clock, and makes it check the server's settings. */
async function warmUp(lock: RedisLock, monitor: Monitor): Promise<void> {
  await monitor.cost("warm-up", async () => await (await lock.acquire("warm-up")).release());
}

async function countUncontended(lock: RedisLock, name: string, count: Count): Promise<void> {
  let lease: Lease;
  await count("acquire, uncontended", async () => lease = await lock.acquire(name));
  await count("renewal", () => lease.renew());
  await count("query, nobody waits", () => lock.query(name));
  await count("release, nobody waits", () => lease.release());
}

/** Two instances, and control over when the second one may subscribe. */
interface Contest {
  readonly holder: RedisLock;
  readonly waiter: RedisLock;
  readonly gate: GatedInbox;
  readonly name: string;
}

/** The first waiter polls every 500 ms: what follows its poll here takes about half of that. */
async function countContended(contest: Contest, count: Count): Promise<void> {
  const { holder, waiter, gate, name } = contest;
  const lease = await holder.acquire(name);
  await count("tryAcquire, held", () => waiter.tryAcquire(name));
  const first = startWait(waiter, gate, name);
  await count("first ask of a waiter", () => first.answered());
  await count("subscription of the inbox", () => gate.subscribe());
  await count("repeated ask, subscribed", () => (gate.pass(), first.answered()));
  await count("query, one waits", () => holder.query(name));
  await count("poll of the first waiter", () => first.answered());
  const second = startWait(waiter, gate, name);
  await count("first ask of a waiter, subscribed", () => second.answered());
  await count("leaving the queue by abort", () => second.abort());
  let claimed: Lease;
  await count("release with a handoff", async () => {
    await lease.release();
    claimed = await first.lease;
  });
  await count("confirming renewal of a claim", () => claimed.renew());
  await count("release of a former waiter", () => claimed.release());
}

async function countSteal(
  holder: RedisLock,
  thief: RedisLock,
  name: string,
  count: Count,
): Promise<void> {
  const victim = await holder.acquire(name);
  const stolen = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<void>();
  let request: Promise<void> | undefined;
  await count("steal", () => {
    request = thief.request(name, { steal: true }, () => (stolen.resolve(), finished.promise));
    return stolen.promise;
  });
  finished.resolve();
  await request;
  await victim.release();
}

/** An acquire call that has to wait. */
interface Wait {
  readonly lease: Promise<Lease>;
  /** Resolves when the next ask is answered. The first call sends the first ask. */
  answered(): Promise<void>;
  abort(): Promise<void>;
}

function startWait(lock: RedisLock, gate: GatedInbox, name: string): Wait {
  const controller = new AbortController();
  let start = () => {};
  const started = new Promise<void>((resolve) => start = resolve);
  const options = { signal: controller.signal };
  const lease = started.then(() => lock.acquire(name, options));
  return {
    lease,
    answered() {
      const answer = gate.replied();
      start();
      return answer;
    },
    async abort() {
      controller.abort();
      await lease.catch(() => {});
    },
  };
}

/** A port whose subscription is made in two steps, so that each can be counted alone. */
interface GatedInbox {
  readonly port: RedisClient;
  /** Subscribes; the lock does not know yet. */
  subscribe(): Promise<void>;
  /** Lets the lock know that it has subscribed. */
  pass(): void;
  /** Resolves at the next reply to a command. */
  replied(): Promise<void>;
}

function gatedInbox(port: RedisClient): GatedInbox {
  const open = Promise.withResolvers<void>();
  const subscribed = Promise.withResolvers<void>();
  const passed = Promise.withResolvers<void>();
  const subscribe: NonNullable<RedisClient["subscribe"]> = async (...args) => {
    const [channel, onMessage, onSubscribed, signal] = args;
    await open.promise;
    const onFirst = () => {
      subscribed.resolve();
      passed.promise.then(onSubscribed);
    };
    await port.subscribe!(channel, onMessage, onFirst, signal);
  };
  let onReply = () => {};
  const send: RedisClient["send"] = async (...args) => {
    const reply = await port.send(...args);
    onReply();
    return reply;
  };
  return {
    port: portWith(port, { subscribe, send }),
    subscribe: () => (open.resolve(), subscribed.promise),
    pass: () => passed.resolve(),
    replied: () => new Promise((resolve) => onReply = resolve),
  };
}
