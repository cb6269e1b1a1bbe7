/**
 * Starts one worker as a process and listens to it.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { type Line, linesOf } from "./channel.ts";
import type { Event } from "./history.ts";
import type { Task } from "./job.ts";

const WORKER = fileURLToPath(new URL("../worker.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));

/** A worker process. */
export interface WorkerProcess {
  /** Resolves when the worker waits for the others, or has ended. */
  readonly ready: Promise<void>;
  /** Resolves with the failure in words, or `null`. */
  readonly ended: Promise<string | null>;
  /** Lets the worker begin. */
  start(): void;
  kill(): void;
  /** Kills the worker without counting it as a failure. */
  sacrifice(): void;
}

/** Starts a worker process. */
export function startWorker(task: Task, onEvent: (event: Event) => void): WorkerProcess {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--config", CONFIG, WORKER],
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { worker } = task.job;
  const ready = Promise.withResolvers<void>();
  const input = inputOf(child);
  let isSacrificed = false;
  const hear = (line: Line) => {
    if (line.event === "ready") return ready.resolve();
    if (line.event === "done") return input.end();
    onEvent({ ...line, worker });
  };
  const ended = listen(child, hear).then((failure) => {
    ready.resolve();
    input.end();
    return failure === null || isSacrificed ? null : `worker ${worker} ${failure}`;
  });
  input.say(JSON.stringify(task));
  return {
    ready: ready.promise,
    ended,
    start: () => input.say("go"),
    kill: () => kill(child),
    sacrifice() {
      isSacrificed = true;
      kill(child);
    },
  };
}

/** Reads the messages of a process until it ends; resolves with its failure, or `null`. */
async function listen(
  child: Deno.ChildProcess,
  hear: (line: Line) => void,
): Promise<string | null> {
  const complaints = new Response(child.stderr).text();
  try {
    for await (const line of linesOf(child.stdout)) hear(JSON.parse(line));
  } catch (error) {
    kill(child);
    await child.status;
    return `printed something unexpected: ${(error as Error).message}`;
  }
  const { code, signal } = await child.status;
  if (code === 0) return null;
  const how = signal === null ? `exit code ${code}` : signal;
  return `ended with ${how}: ${firstError(await complaints)}`;
}

function kill(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // The process has already ended.
  }
}

/** The input of a process that may end at any moment. */
function inputOf(child: Deno.ChildProcess) {
  const writer = child.stdin.getWriter();
  const ignore = () => {}; // the exit of the process explains the failure
  return {
    say: (line: string) => void writer.write(new TextEncoder().encode(`${line}\n`)).catch(ignore),
    end: () => void writer.close().catch(ignore),
  };
}

/** The line with the error message in the output of a process. */
function firstError(output: string): string {
  const lines = output.trim().split("\n");
  const line = lines.find((line) => line.startsWith("error: ")) ?? lines.at(-1) ?? "";
  return line.replace(/^error: (Uncaught )?(\(in promise\) )?/, "") || "no error was printed";
}
