/**
 * Starts processes of several runtimes that use `FileLock` on the same directory.
 *
 * @module
 */
import { type ChildProcess, startChild } from "../processes/child.ts";
import type { Runtime } from "./file_runtimes.ts";

/** The work of such a process. */
export type MemberTask =
  /** Adds 1 to the number in a file, `rounds` times, under the lock. */
  | {
    readonly do: "count";
    readonly dir: string;
    readonly counter: string;
    readonly rounds: number;
  }
  /** Holds the lock and has started another process; reports its number. */
  | { readonly do: "hold"; readonly dir: string }
  /** For each line it waits for the lock, for the next line it releases it. Only events wake it. */
  | { readonly do: "take turns"; readonly dir: string }
  /** Waits for the lock, releases it and ends. Only events wake it. */
  | { readonly do: "acquire"; readonly dir: string }
  /** Waits for the lock and keeps it; reports both. */
  | { readonly do: "keep"; readonly dir: string }
  /** Watches the directory; sends a {@linkcode WatchReport} and ends while two other watches are open. */
  | { readonly do: "watch"; readonly dir: string }
  /** Locks a closed file; reports the error. */
  | { readonly do: "lock closed"; readonly path: string }
  /** Creates a `FileLock`; reports the error. */
  | { readonly do: "create"; readonly dir: string };

/** What a process has seen of a directory. */
export interface WatchReport {
  /** The names of the changed files after each kind of change. */
  readonly changes: Readonly<Record<string, readonly string[]>>;
  /** How many descriptors of inotify the process has at its end. */
  readonly descriptors: number;
  /** How many pipes it has one end of, more than at its begin. */
  readonly pipes: number;
}

/** A running process. Disposal kills it. */
export interface Member extends Omit<ChildProcess, "line"> {
  /** The next value that it reports. Rejects if it ends before that. */
  report(): Promise<unknown>;
}

/** Starts a process. */
export function startMember(
  { commandOf, env }: Pick<Runtime, "commandOf" | "env">,
  task: MemberTask,
): Member {
  const child = startChild(new URL("./member.ts", import.meta.url), task, env, commandOf);
  return {
    ...child,
    async report() {
      const line = await child.line();
      if (line === null) throw new Error("The process ended before it printed a line");
      return JSON.parse(line);
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
