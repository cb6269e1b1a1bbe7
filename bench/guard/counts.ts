/**
 * Counts what operations of the Redis lock make the server do. Counts, unlike times, do not depend on the
 * load of the machine.
 *
 * @module
 */
import { ioredis, type IoredisClient } from "../../redis/clients/ioredis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { connectIoredis } from "../contenders/connections.ts";
import { measured } from "../library/meters.ts";
import { median } from "../library/statistics.ts";
import type { OperationCost } from "../versions/jobs.ts";
import { type Monitor, openMonitor } from "../versions/monitor.ts";

/** Long enough that nothing is renewed while an operation is counted. */
const TTL_MS = 60_000;
/** A poll that falls into an operation only adds to its cost. */
const RUNS = 3;

/** A server, and two instances of the lock. */
export interface GuardStage extends AsyncDisposable {
  readonly url: string;
  readonly holder: RedisLock;
  readonly waiter: RedisLock;
}

/** Starts the server and connects the instances. */
export async function openGuardStage(): Promise<GuardStage> {
  await using stack = new AsyncDisposableStack();
  const { url } = stack.use(await startRedis());
  const open = async () => {
    const client = await connectIoredis(url);
    stack.defer(() => client.disconnect());
    const port = ioredis(client as unknown as IoredisClient);
    return stack.use(new RedisLock(port, { ttlMs: TTL_MS }));
  };
  const stage = { url, holder: await open(), waiter: await open() };
  const owned = stack.move();
  return { ...stage, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The least cost of each operation in several runs. */
export async function countOperations(stage: GuardStage): Promise<OperationCost[]> {
  await using monitor = await openMonitor(stage.url);
  const least = new Map<string, OperationCost>();
  for (let run = 0; run < RUNS; run++) {
    for (const cost of await countRun(stage, monitor, `guard:${run}`)) {
      const known = least.get(cost.operation);
      if (known === undefined || sizeOf(cost) < sizeOf(known)) least.set(cost.operation, cost);
    }
  }
  return [...least.values()];
}

function sizeOf({ commands, keys, args, calls }: OperationCost): number {
  return commands + keys + args + calls.length;
}

async function countRun(
  { holder, waiter }: GuardStage,
  monitor: Monitor,
  name: string,
): Promise<OperationCost[]> {
  await (await waiter.acquire("warm-up")).release(); // loads scripts, and learns the server's clock
  await (await holder.acquire("warm-up")).release();
  const costs: OperationCost[] = [];
  const count = async <T>(operation: string, run: () => Promise<T>): Promise<T> => {
    let result: T;
    costs.push(await monitor.cost(operation, async () => result = await run()));
    return result!;
  };
  const alone = await holder.acquire(`${name}:alone`);
  await count("release", () => alone.release());
  const lease = await count("acquire", () => holder.acquire(name));
  await count("renewal", () => lease.renew());
  await count("tryAcquire of a held lock", () => waiter.tryAcquire(name));
  const waiting = waiter.acquire(name);
  await monitor.cost("the wait begins", () => Promise.resolve());
  const next = await count("handoff", async () => (await lease.release(), await waiting));
  await count("release after a wait", () => next.release());
  return costs;
}

/** How much is run in order to count bytes. */
export interface BytesWorkload {
  /** How many cycles are in flight. */
  readonly calls: number;
  readonly cycles: number;
  readonly rounds: number;
}

/** A cycle of acquire and release. The name of the lock is always the same for an index. */
export function lockCycle(lock: RedisLock): (index: number) => Promise<unknown> {
  return async (index) => await (await lock.acquire(`bytes:${index}`)).release();
}

/** The median of the bytes that this process allocates for a cycle. Each cycle in flight has its own index. */
export async function bytesPerCycle(
  cycle: (index: number) => Promise<unknown>,
  { calls, cycles, rounds }: BytesWorkload,
): Promise<number> {
  const bytes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    let left = cycles;
    const lane = async (index: number) => {
      while (left-- > 0) await cycle(index);
    };
    const { allocatedBytes } = await measured(async () => {
      await Promise.all(Array.from({ length: calls }, (_, index) => lane(index)));
    });
    bytes.push(allocatedBytes / cycles);
  }
  return median(bytes.slice(Math.floor(rounds / 2))); // the first rounds are a warm-up
}
