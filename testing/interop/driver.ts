/**
 * Processes that contend for one lock by ours, by Curator and by kazoo, under one small protocol.
 *
 * Such a process prints `ready` when it has its session. Then it reads lines:
 * - `contend WAITERS FILE`: so many waiters take and release the lock over and over; each appends
 *   `enter LABEL SEQUENCE` and then `leave LABEL SEQUENCE` to the file while it holds the lock;
 * - `time WAITERS STEPS`: so many waiters take and release the lock so many times in all; prints the µs
 *   per time.
 *
 * At the end of its input everybody who waits is served once more, and it exits with 0.
 *
 * @module
 */
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, spawnProcess } from "../runtime/processes.ts";
import type { Programs } from "./programs.ts";

/** Who contends: "kazoo" alone is a stock lock, which heeds only its own kind. */
export type Kind = "ours" | "curator" | "kazoo" | "kazoo-patterns" | "kazoo-curator-names";

/** Where to contend, and what for. */
export interface Place {
  readonly connectString: string;
  /** The lock's znode. */
  readonly path: string;
}

/** A running process. */
export interface Driver extends AsyncDisposable {
  readonly kind: Kind;
  send(line: string): Promise<void>;
  /** The next line that it prints. */
  line(): Promise<string>;
  /** Ends its input; resolves with its exit code. */
  end(): Promise<number>;
}

/** Starts a process; resolves when it is ready. */
export async function startDriver(kind: Kind, place: Place, programs: Programs): Promise<Driver> {
  const command = commandOf(kind, place, programs);
  const child = spawnProcess(command, { hasInput: true, stdout: "pipe", stderr: "inherit" });
  const lines = linesOf(child.stdout!);
  const driver: Driver = {
    kind,
    send: (line) => child.write(`${line}\n`),
    async line() {
      const line = await lines.next();
      if (line === null) throw new Error(`${kind} ended before it printed a line`);
      return line;
    },
    async end() {
      await child.endInput();
      return (await child.ended).code;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.endInput();
      await child.ended;
      await lines.cancel();
    },
  };
  try {
    await driver.line();
    return driver;
  } catch (error) {
    await driver[Symbol.asyncDispose]();
    throw error;
  }
}

function commandOf(kind: Kind, { connectString, path }: Place, programs: Programs): string[] {
  const args = [connectString, path, kind];
  if (kind === "curator") return [...programs.curator.command!, ...args];
  if (kind !== "ours") {
    const naming = kind === "kazoo" ? "stock" : kind.slice("kazoo-".length).split("-")[0]!;
    return [...programs.kazoo.command!, ...args, naming];
  }
  return [...scriptCommand(new URL("./contender.ts", import.meta.url)), ...args];
}
