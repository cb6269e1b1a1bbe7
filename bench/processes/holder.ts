/**
 * Starts processes that take a lock on order, to be killed while they hold it or wait for it.
 *
 * @module
 */
import { type ChildProcess, startChild } from "../../testing/processes/child.ts";
import type { OpenOptions } from "../library/contender.ts";

/** Options of the process. */
export interface HolderOptions {
  /** The key of the contender. */
  readonly id: string;
  readonly place: string;
  readonly settings: OpenOptions;
}

/** A process that holds a lock or waits for it. */
export interface Holder extends AsyncDisposable {
  /** Orders it to acquire a lock; resolves when that call is under way. */
  ask(name: string): Promise<void>;
  /** Resolves when the lock is granted, with the time in µs of a shared clock. */
  granted(): Promise<number>;
  /** Releases the lock; resolves with the time in µs at which it called `release()`. */
  release(): Promise<number>;
  kill(): Promise<void>;
}

/** Starts a process; resolves when it is connected and has taken a lock once. */
export async function startHolder(options: HolderOptions): Promise<Holder> {
  const child = startChild(new URL("./holder_process.ts", import.meta.url), options);
  await timeOf(child);
  return {
    ask: async (name) => {
      await child.send(name);
      await timeOf(child);
    },
    granted: () => timeOf(child),
    async release() {
      await child.send("");
      return await timeOf(child);
    },
    async kill() {
      child.kill("SIGKILL");
      await child.ended;
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

async function timeOf(child: ChildProcess): Promise<number> {
  const line = await child.line();
  if (line === null) throw new Error("The process of a holder has ended");
  return Number(line);
}
