/**
 * The port to processes: starts programs and scripts, and gives a script its argument, its input and
 * its output.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";
import { constants } from "node:os";
import process from "node:process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** The signals that tests send. */
export type Signal = "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT";

/** The end of a process: it exits with a code, or a signal ends it. */
export interface ProcessEnd {
  /** 128 and the signal's number if a signal ended it, as shells say. */
  readonly code: number;
  readonly signal: string | null;
}

/** How a process is started. */
export interface SpawnOptions {
  readonly cwd?: string;
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether this process writes to its input; else its input is empty. */
  readonly hasInput?: boolean;
  /** Where its standard output goes; thrown away by default. */
  readonly stdout?: "pipe" | "ignore" | "inherit";
  /** Where its error output goes; thrown away by default. */
  readonly stderr?: "pipe" | "ignore" | "inherit";
  /** Whether it gets a session and a process group of its own. */
  readonly isDetached?: boolean;
}

/** A process that was started. A test must wait for `ended`: it leaves no process behind. */
export interface SpawnedProcess {
  readonly pid: number;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  /** Resolves when the process has ended. */
  readonly ended: Promise<ProcessEnd>;
  /** Sends a signal; does nothing when the process has ended. */
  kill(signal: Signal): void;
  /** Writes to its input; rejects when it reads no more, unless that is because it has ended. */
  write(text: string): Promise<void>;
  /** Ends its input; resolves in any case. */
  endInput(): Promise<void>;
}

/** Starts a program; throws if there is none. */
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
  child.on("error", () => {}); // A process that could not start has no id.
  const { pid } = child;
  if (pid === undefined) throw new Error(`Cannot start ${program}: is it installed?`);
  child.stdin?.on("error", () => {}); // The callback of each write reports it.
  const ended = endOf(child);
  return {
    pid,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    kill(signal) {
      if (child.exitCode === null && child.signalCode === null) send(pid, signal);
    },
    // The end of a process destroys its input, and then no callback follows.
    write: (text) => Promise.race([write(child, text), ended.then(() => {})]),
    endInput: () => Promise.race([endInput(child), ended.then(() => {})]),
  };
}

/** Not by `ChildProcess.kill()`: in Deno, it sends one signal only. */
function send(pid: number, signal: Signal): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It has just ended, and its exit is about to be reported.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
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

/** The command that runs a script with this runtime, unchecked and with all permissions. */
export function scriptCommand(script: URL): string[] {
  const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
  const isDeno = process.versions["deno"] !== undefined;
  const run = isDeno ? ["run", "-A", "--no-check", "--config", config] : [];
  return [process.execPath, ...run, fileURLToPath(script)];
}

/** The argument that `startChild()` has handed to this script. */
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

/** Prints text at once: nothing is lost if the process is killed next. */
export function print(text: string): void {
  const bytes = Buffer.from(text);
  for (let sent = 0; sent < bytes.length;) sent += writeSync(1, bytes, sent);
}
