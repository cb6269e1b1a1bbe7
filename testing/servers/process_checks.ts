/**
 * What tests ask about processes.
 *
 * @module
 */

import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { linesOf } from "../runtime/lines.ts";
import { scriptCommand, type Signal, spawnProcess } from "../runtime/processes.ts";
import { runCommand } from "./command.ts";

const KILL_BOUND_MS = 5_000;

/** True while the process runs; a zombie that nobody has waited for does not. */
export async function isAlive(pid: number): Promise<boolean> {
  if (process.platform === "linux") {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    return stat !== "" && !/\) Z /.test(stat);
  }
  return (await runCommand(["kill", "-0", String(pid)], KILL_BOUND_MS)).success;
}

/** True if there is such a file or directory. */
export async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

/** A process of its own process group, as one that a terminal has started. */
export interface HoldingProcess extends AsyncDisposable {
  /** What it printed about what it holds. */
  readonly held: { readonly pid: number; readonly directory?: string; readonly port?: number };
  /** Sends a signal to the process alone. */
  kill(signal: Signal): void;
  /** Sends a signal to its process group, as Ctrl-C does. */
  killGroup(signal: Signal): void;
}

/** Starts a process that holds something guarded, and waits until it does. */
export async function startHolding(what: "redis" | "sleep"): Promise<HoldingProcess> {
  const command = scriptCommand(new URL("./testdata/hold.ts", import.meta.url));
  const child = spawnProcess([...command, JSON.stringify(what)], {
    stdout: "pipe",
    stderr: "inherit",
    isDetached: true,
  });
  const lines = linesOf(child.stdout!);
  const held = await lines.next();
  if (held === null) throw new Error("The process ended before it held anything");
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
