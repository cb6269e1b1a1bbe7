/**
 * Checks of processes and files, for tests of the helpers.
 *
 * @module
 */

import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, type Signal, spawnProcess } from "../runtime/processes.ts";
import { runCommand } from "./command.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** True while the process runs. A zombie does not run. */
export async function isAlive(pid: number): Promise<boolean> {
  if (process.platform === "linux") {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    return stat !== "" && !/\) Z /.test(stat);
  }
  return (await runCommand(["kill", "-0", String(pid)], CONDITION_BOUND_MS)).success;
}

/** True if the file or directory exists. */
export async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

/** A process with its own process group, like one that a terminal starts. */
export interface HoldingProcess extends AsyncDisposable {
  /** The server or process that it guards, as it reported it. */
  readonly held: { readonly pid: number; readonly directory?: string; readonly port?: number };
  /** Sends a signal to the process alone. */
  kill(signal: Signal): void;
  /** Sends a signal to its process group, as Ctrl-C does. */
  killGroup(signal: Signal): void;
}

/** Starts a process that starts a guarded process, and waits until that runs. */
export async function startHolding(what: "redis" | "sleep"): Promise<HoldingProcess> {
  const command = scriptCommand(new URL("./testdata/hold.ts", import.meta.url));
  const child = spawnProcess([...command, JSON.stringify(what)], {
    stdout: "pipe",
    stderr: "inherit",
    isDetached: true,
  });
  const lines = linesOf(child.stdout!);
  const held = await lines.next();
  if (held === null) throw new Error("The process ended before it started a guarded process");
  return {
    held: JSON.parse(held),
    kill: (signal) => child.kill(signal),
    killGroup: (signal) => void process.kill(-child.pid, signal),
    async [Symbol.asyncDispose]() {
      await child.ended;
      await lines.cancel();
    },
  };
}
