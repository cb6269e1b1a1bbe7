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
import { fileURLToPath } from "node:url";
import { linesOf } from "./lines.ts";
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
  const [program = "", ...args] = commandOf(kind, place, programs);
  const child = new Deno.Command(program, {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = linesOf(child.stdout);
  const writer = child.stdin.getWriter();
  let closing: Promise<void> | undefined;
  const close = () => closing ??= writer.close().catch(() => {});
  const driver: Driver = {
    kind,
    send: (line) => writer.write(new TextEncoder().encode(`${line}\n`)),
    async line() {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${kind} ended before it printed a line`);
      return value;
    },
    async end() {
      await close();
      return (await child.status).code;
    },
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await close();
      await child.status;
      await lines.return(undefined);
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
  const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  const config = file("../../deno.json");
  const run = [Deno.execPath(), "run", "-A", "--no-check", "--config", config];
  return [...run, file("./contender.ts"), ...args];
}
