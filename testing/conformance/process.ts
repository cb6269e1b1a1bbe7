/**
 * Other processes that take locks, for tests that kill them.
 *
 * @module
 */
import { startChild } from "../processes/child.ts";
import type { Signal } from "../runtime/processes.ts";
import type { LockSpec } from "./lock_spec.ts";

/** What the other process does. */
export type Task =
  /** Takes the lock, says so, and holds it until it is killed or its input ends. */
  | { do: "hold"; name: string }
  /** Takes the lock, says so, and exits at once without releasing it by hand. */
  | { do: "exit"; name: string }
  /** Adds 1 to the number in a file under the lock, again and again. */
  | { do: "count"; name: string; file: string; contenders: number; rounds: number };

/** A process that was started. */
export interface Contender extends AsyncDisposable {
  /** Waits for the next line that it prints. */
  line(): Promise<string>;
  kill(signal: Signal): void;
  /** Ends its input and waits for its exit code. */
  end(): Promise<number>;
}

/** Starts a process. */
export function startContender(spec: LockSpec, task: Task): Contender {
  const child = startChild(new URL("./contender.ts", import.meta.url), { spec, task });
  return {
    async line() {
      const line = await child.line();
      if (line === null) throw new Error("The process ended without a line");
      return line;
    },
    kill: child.kill,
    end: child.end,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
