/**
 * The command `holdfast` as processes, and the commands that it runs in tests.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { scriptCommand, type SpawnedProcess, spawnProcess } from "../runtime/processes.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { waitUntil } from "../servers/wait.ts";

export const MAIN = new URL("../../command/main.ts", import.meta.url);

/** Prints its process id, ignores TERM, and ends by KILL, or some time after a test run that was killed. */
export const STUBBORN = ["sh", "-c", "trap '' TERM; echo $$; exec sleep 1000"];

/** Prints its process id, and the name of the signal that ends it. */
export const OBEDIENT = [
  "sh",
  "-c",
  'for s in HUP INT QUIT TERM USR1 USR2; do trap "echo got $s; exit 0" $s; done; ' +
  "echo $$; while :; do sleep 0.05; done",
];

/** Prints its process id, and the name of each signal that it gets; TERM, twice in a row, ends it. */
export const LISTENING = [
  "sh",
  "-c",
  `for s in HUP INT QUIT TERM USR1 USR2 CONT WINCH; do trap "echo $s" $s; done
  (trap "" HUP INT QUIT TERM USR1 USR2; echo $$; exec sleep 1000) &
  while kill -0 $!; do wait $!; done`,
];

/** Starts `holdfast` as a process. */
export function startHoldfast(args: readonly string[], url = ""): SpawnedProcess {
  return spawnProcess([...scriptCommand(MAIN), ...args], {
    env: { HOLDFAST_URL: url },
    stdout: "pipe",
    stderr: "pipe",
  });
}

/** Runs it to its end. */
export async function finishHoldfast(args: readonly string[], url?: string) {
  const process = startHoldfast(args, url);
  const [stdout, stderr] = await Promise.all([text(process.stdout!), text(process.stderr!)]);
  return { code: (await process.ended).code, stdout, stderr };
}

/** A running `holdfast run`. */
export interface RunningCommand {
  readonly holdfast: SpawnedProcess;
  /** The process id that the command has printed first. */
  readonly pid: number;
  /** What the command has printed: all of it once `closed` has resolved, which may be after the process's end. */
  output(): string;
  readonly closed: Promise<void>;
}

/** Waits until the command of a process has printed its process id. */
export async function printedPid(holdfast: SpawnedProcess): Promise<RunningCommand> {
  let output = "";
  const stdout = holdfast.stdout!.setEncoding("utf8");
  const closed = new Promise<void>((resolve) => stdout.once("close", resolve));
  stdout.on("data", (chunk: string) => output += chunk);
  await waitUntil("the command runs", () => output.includes("\n"));
  return { holdfast, pid: Number(output.split("\n")[0]), output: () => output, closed };
}

/** Starts it with a command that prints its process id first. */
export function startCommand(args: readonly string[], url: string): Promise<RunningCommand> {
  return printedPid(startHoldfast(args, url));
}

/** Whether a process has ended. One whose parent has not asked for its end is still listed. */
export function isGone(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/** A place for file locks. */
export async function fileUrl() {
  const path = await makeTempDirectory();
  return { url: `file://${path}`, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}
