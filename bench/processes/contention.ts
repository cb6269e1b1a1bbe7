/**
 * Starts processes in which waiters contend for one lock, and gathers their grants.
 *
 * @module
 */
import { type Contender, idOf } from "../library/contender.ts";
import { type ChildProcess, startChild } from "../../testing/processes/child.ts";

/** One run of contention. */
export interface ContentionOrder {
  /** The key of the contender. */
  readonly id: string;
  readonly name: string;
  readonly waiters: number;
  readonly holdMs: number;
  readonly runMs: number;
}

/** The grants of a run in the order in which a process saw them; times in µs of a shared clock. */
export interface Grants {
  readonly calledUs: readonly number[];
  readonly grantedUs: readonly number[];
  /** When the holder called `release()`. */
  readonly releasedUs: readonly number[];
  /** The number of the waiter that was granted the lock. */
  readonly waiter: readonly number[];
  /** The CPU time of the process in µs. */
  readonly cpuUs: number;
}

/** Processes that contend on order. */
export interface Fleet extends AsyncDisposable {
  /** Runs waiters in some of the processes; resolves with the grants of each. */
  contend(processes: number, order: ContentionOrder): Promise<Grants[]>;
}

/** Starts processes that use a server by its URL, or a directory by its path. */
export function startFleet(processes: number, place: string): Fleet {
  const children = Array.from(
    { length: processes },
    () => startChild(new URL("./contention_process.ts", import.meta.url), { place }),
  );
  return {
    contend(count, order) {
      const chosen = children.slice(0, Math.min(count, order.waiters));
      const shares = sharesOf(order.waiters, chosen.length);
      return Promise.all(
        chosen.map((child, index) => ask(child, { ...order, waiters: shares[index]! })),
      );
    },
    async [Symbol.asyncDispose]() {
      for (const child of children) await child[Symbol.asyncDispose]();
    },
  };
}

async function ask(child: ChildProcess, order: ContentionOrder): Promise<Grants> {
  await child.send(JSON.stringify(order));
  const line = await child.line();
  if (line === null) throw new Error(`The process of ${order.id} has ended`);
  const answer: Grants | { readonly error: string } = JSON.parse(line);
  if ("error" in answer) throw new Error(`${order.id}: ${answer.error}`);
  return answer;
}

/** Spreads waiters over processes as evenly as possible. */
export function sharesOf(waiters: number, processes: number): number[] {
  return Array.from(
    { length: processes },
    (_, index) => Math.floor((waiters + index) / processes),
  );
}

/** Connects all processes, and has the code compiled. */
export async function warmUp(
  fleet: Fleet,
  processes: number,
  contender: Contender,
): Promise<void> {
  const id = idOf(contender);
  const order = { id, name: `${id}:warm-up`, waiters: 2 * processes, holdMs: 0, runMs: 500 };
  await fleet.contend(processes, order);
}
