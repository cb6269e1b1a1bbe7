/**
 * Starts processes that contend for one lock with `ZooKeeperLock`, Curator or kazoo.
 *
 * Such a process prints `ready` when it has its session. Then it reads lines:
 * - `contend WAITERS FILE`: that number of waiters acquire and release the lock again and again. While a
 *   waiter holds it, it appends `enter LABEL SEQUENCE` and then `leave LABEL SEQUENCE` to the file;
 * - `time WAITERS STEPS`: that number of waiters acquire and release the lock `STEPS` times in all. Then
 *   the process prints the µs per step.
 *
 * When its input ends, each waiter is served once more, and the process exits with 0.
 *
 * @module
 */
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, spawnProcess } from "../runtime/processes.ts";
import type { Programs } from "./peer_programs.ts";

/** The library that contends; "ours-shared" in shared mode. "kazoo" is its stock lock, which recognises only kazoo's znodes. */
export type Kind =
  | "ours"
  | "ours-shared"
  | "curator"
  | "kazoo"
  | "kazoo-patterns"
  | "kazoo-curator-names";

/** The servers, and the lock to contend for. */
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
  if (kind.startsWith("kazoo")) {
    const naming = kind === "kazoo" ? "stock" : kind.slice("kazoo-".length).split("-")[0]!;
    return [...programs.kazoo.command!, ...args, naming];
  }
  return [...scriptCommand(new URL("./holdfast_contender.ts", import.meta.url)), ...args];
}
