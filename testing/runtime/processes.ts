/**
 * The port to processes: starts programs and scripts, and gives a script access to its argument,
 * input and output.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeSync } from "node:fs";
import { constants } from "node:os";
import process from "node:process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** The signals that tests send. */
export type Signal =
  | ("SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2" | "SIGWINCH")
  | ("SIGKILL" | "SIGSTOP" | "SIGTSTP" | "SIGCONT");

/** The end of a process: it exits with a code, or a signal ends it. */
export interface ProcessEnd {
  /** 128 plus the number of the signal if a signal ended it, as in shells. */
  readonly code: number;
  readonly signal: string | null;
}

/** How a process is started. */
export interface SpawnOptions {
  readonly cwd?: string;
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether this process writes to its input; otherwise the input is empty. */
  readonly hasInput?: boolean;
  /** Where its standard output goes; discarded by default. */
  readonly stdout?: "pipe" | "ignore" | "inherit";
  /** Where its error output goes; discarded by default. */
  readonly stderr?: "pipe" | "ignore" | "inherit";
  /** Whether it gets a session and a process group of its own. */
  readonly isDetached?: boolean;
}

/** A running process. A test must wait for `ended`, so that it leaves no process behind. */
export interface SpawnedProcess {
  readonly pid: number;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  /** Resolves when the process has ended. */
  readonly ended: Promise<ProcessEnd>;
  /** Sends a signal; does nothing after the process has ended. */
  kill(signal: Signal): void;
  /** Writes to its input. Rejects if the process has closed its input, but not if it has ended. */
  write(text: string): Promise<void>;
  /** Closes its input; never rejects. */
  endInput(): Promise<void>;
}

/**
 * Starts a program.
 *
 * @throws {Error} If the program does not exist.
 */
export function spawnProcess(
  [program = "", ...args]: readonly string[],
  options: SpawnOptions = {},
): SpawnedProcess {
  const { cwd, env, hasInput = false, stdout = "ignore", stderr = "ignore" } = options;
  const child = spawn(program, args, {
    ...cwd !== undefined && { cwd },
    env: { ...process.env, ...env },
    stdio: [hasInput ? "pipe" : "ignore", stdout, stderr],
    detached: options.isDetached === true,
  });
  child.on("error", () => {}); // A failed start is detected by the missing process id.
  const { pid } = child;
  if (pid === undefined) throw new Error(`Cannot start ${program}: is it installed?`);
  child.stdin?.on("error", () => {}); // Each write reports its own error.
  const ended = endOf(child);
  return {
    pid,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    kill(signal) {
      if (child.exitCode === null && child.signalCode === null) send(pid, signal);
    },
    // When a process ends, its input is destroyed and callbacks are never called.
    write: (text) => Promise.race([write(child, text), ended.then(() => {})]),
    endInput: () => Promise.race([endInput(child), ended.then(() => {})]),
  };
}

/** `ChildProcess.kill()` is not an option: in Deno, it sends only one signal. */
function send(pid: number, signal: Signal): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // The process has just ended; its exit event follows.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * Whether all threads of a process are stopped: after SIGSTOP, they may run on for a moment. `null` where
 * the system does not tell.
 */
export function isStopped(pid: number): boolean | null {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.every((id) => stateOf(`/proc/${pid}/task/${id}/stat`).toUpperCase() === "T");
  } catch {
    return null;
  }
}

/** The state in a file of proc(5): the field behind the name, which is in parentheses. */
function stateOf(file: string): string {
  const text = readFileSync(file, "utf8");
  return text.charAt(text.lastIndexOf(")") + 2);
}

async function endOf(child: ChildProcess): Promise<ProcessEnd> {
  const [code, signal] = await once(child, "exit") as [number | null, NodeJS.Signals | null];
  return { code: code ?? 128 + constants.signals[signal!], signal };
}

function write({ stdin }: ChildProcess, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stdin!.write(text, (error) => error ? reject(error) : resolve());
  });
}

function endInput({ stdin }: ChildProcess): Promise<void> {
  return new Promise((resolve) => void stdin!.end(resolve));
}

/** The command that runs a script in this runtime, without type check, with all permissions. */
export function scriptCommand(script: URL): string[] {
  const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
  const isDeno = process.versions["deno"] !== undefined;
  // Quiet: with an empty cache, downloads would be printed among the errors of the script.
  const run = isDeno ? ["run", "--quiet", "-A", "--no-check", "--config", config] : [];
  return [process.execPath, ...run, fileURLToPath(script)];
}

/** The argument that `startChild()` passed to this script. */
export function scriptArgument<T>(): T {
  return JSON.parse(process.argv[2]!) as T;
}

/** This script's input. */
export function scriptInput(): Readable {
  return process.stdin;
}

/** Resolves when this script's input has ended. */
export async function inputEnd(): Promise<void> {
  for await (const _ of process.stdin);
}

/** Prints text synchronously, so that nothing is lost if the process is killed right afterwards. */
export function print(text: string): void {
  const bytes = Buffer.from(text);
  for (let sent = 0; sent < bytes.length;) sent += writeSync(1, bytes, sent);
}
