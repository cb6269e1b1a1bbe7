/**
 * Starts processes that take locks, for tests that kill them.
 *
 * @module
 */
import type { LockMode } from "../../mod.ts";
import { startChild } from "../processes/child.ts";
import type { Signal } from "../runtime/processes.ts";
import type { LockSpec } from "./lock_spec.ts";

/** The task of the process. */
export type Task =
  /** Takes the lock, reports that it waits and that it holds, and holds until it is killed or its input ends. */
  | { do: "hold"; name: string; mode?: LockMode }
  /** Takes the lock, reports it, and exits without calling `release()`. */
  | { do: "exit"; name: string }
  /** Adds 1 to the number in a file under the lock, repeatedly. */
  | { do: "count"; name: string; file: string; contenders: number; rounds: number };

/** A running process. Disposal kills it. */
export interface Contender extends AsyncDisposable {
  /** The next line that it prints. Rejects if it ends before that. */
  line(): Promise<string>;
  kill(signal: Signal): void;
  /** Closes its input and waits for its exit code. */
  end(): Promise<number>;
}

/** Starts a process. */
export function startContender(spec: LockSpec, task: Task): Contender {
  const child = startChild(new URL("./contender.ts", import.meta.url), { spec, task });
  return {
    async line() {
      const line = await child.line();
      if (line === null) throw new Error("The process ended before it printed a line");
      return line;
    },
    kill: child.kill,
    end: child.end,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
