/**
 * Other processes that take locks, for tests that kill them.
 *
 * @module
 */
import type { LockSpec } from "./open_lock.ts";

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
  kill(signal: Deno.Signal): void;
  /** Ends its input and waits for its exit code. */
  end(): Promise<number>;
}

/** Starts a process. */
export function startContender(spec: LockSpec, task: Task): Contender {
  const script = new URL("./contender.ts", import.meta.url).pathname;
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, script, JSON.stringify({ spec, task })],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let inputEnded = false;
  const endInput = async () => {
    if (inputEnded) return;
    inputEnded = true;
    await child.stdin.close().catch(() => {});
  };
  return {
    async line() {
      while (!buffer.includes("\n")) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`The process ended without a line: ${JSON.stringify(buffer)}`);
        buffer += value;
      }
      const end = buffer.indexOf("\n");
      const line = buffer.slice(0, end);
      buffer = buffer.slice(end + 1);
      return line;
    },
    kill: (signal) => child.kill(signal),
    async end() {
      await endInput();
      return (await child.status).code;
    },
    async [Symbol.asyncDispose]() {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await endInput();
      await child.status;
      await reader.cancel();
    },
  };
}
