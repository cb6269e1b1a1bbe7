/**
 * Starts a process with many waiters of one lock, or with many held locks, and meters it.
 *
 * @module
 */
import { startChild } from "../../testing/processes/child.ts";

/** Options of the process. */
export interface CrowdOptions {
  /** The key of the contender. */
  readonly id: string;
  readonly url: string;
  readonly ttlMs: number;
  /** Whether all of them wait for one lock, or each holds its own. */
  readonly kind: "wait" | "hold";
  readonly name: string;
  readonly count: number;
}

/** The figures that a process prints on order. */
export type CrowdOrder = "cpu" | "heap";

/** A process with waiters or holders. */
export interface Crowd extends AsyncDisposable {
  /** Bytes of the heap before the first of them. */
  readonly emptyHeapBytes: number;
  /** Bytes of the heap after a collection of garbage. */
  heapBytes(): Promise<number>;
  /** CPU time of the process so far in µs. */
  cpuUs(): Promise<number>;
}

/** Starts a process; resolves when all hold their locks, or when all calls are under way. */
export async function startCrowd(options: CrowdOptions): Promise<Crowd> {
  const child = startChild(new URL("./crowd_process.ts", import.meta.url), options);
  const reading = async (): Promise<number> => {
    const line = await child.line();
    if (line === null) throw new Error(`The process of ${options.id} has ended`);
    return Number(line);
  };
  const ask = async (order: CrowdOrder) => {
    await child.send(order);
    return await reading();
  };
  const emptyHeapBytes = await reading();
  await reading();
  return {
    emptyHeapBytes,
    heapBytes: () => ask("heap"),
    cpuUs: () => ask("cpu"),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
