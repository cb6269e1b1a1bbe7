/**
 * Runs cycles of acquire and release, and measures the bytes and the CPU time of this process.
 *
 * @module
 */
import process from "node:process";
import v8 from "node:v8";
import type { RedisLock } from "../../redis/mod.ts";
import type { CycleCost, Workload } from "./jobs.ts";

/** Measures one round. */
export async function measureCycles(lock: RedisLock, workload: Workload): Promise<CycleCost> {
  const startBytes = allocatedBytes();
  const startCpu = process.cpuUsage();
  await run(lock, workload);
  const { user, system } = process.cpuUsage(startCpu);
  const bytes = allocatedBytes() - startBytes;
  return { cpuUs: (user + system) / workload.steps, bytes: bytes / workload.steps };
}

async function run(lock: RedisLock, { lanes, isContended, steps }: Workload): Promise<void> {
  let left = steps;
  const lane = async (index: number) => {
    const name = isContended ? `shared by ${lanes}` : `own ${index}`;
    while (left-- > 0) await (await lock.acquire(name)).release();
  };
  await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)));
}

/** All bytes that V8 has ever allocated in this process. */
function allocatedBytes(): number {
  const statistics: object = v8.getHeapStatistics();
  if (!("total_allocated_bytes" in statistics)) {
    throw new Error("Cannot count allocated bytes: use a Deno whose V8 counts them (2.9.6 does)");
  }
  return Number(statistics.total_allocated_bytes);
}
