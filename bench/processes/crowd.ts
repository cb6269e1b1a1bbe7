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

/** The counters of the process at a moment. */
export interface CrowdReading {
  /** CPU time in µs. */
  readonly cpuUs: number;
  /** Bytes of the heap after a collection of garbage. */
  readonly heapBytes: number;
}

/** A process with waiters or holders. */
export interface Crowd extends AsyncDisposable {
  /** The needs of the process before the first of them. */
  readonly empty: CrowdReading;
  read(): Promise<CrowdReading>;
}

/** Starts a process; resolves when all hold their locks, or when all calls are under way. */
export async function startCrowd(options: CrowdOptions): Promise<Crowd> {
  const child = startChild(new URL("./crowd_process.ts", import.meta.url), options);
  const reading = async (): Promise<CrowdReading> => {
    const line = await child.line();
    if (line === null) throw new Error(`The process of ${options.id} has ended`);
    return JSON.parse(line);
  };
  const empty = await reading();
  await reading();
  return {
    empty,
    async read() {
      await child.send("read");
      return await reading();
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
