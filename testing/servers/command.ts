/**
 * Short-lived helper commands.
 *
 * @module
 */
import { text } from "node:stream/consumers";
import { type SpawnedProcess, type SpawnOptions, spawnProcess } from "../runtime/processes.ts";

/** How a command ended, and what it printed on both of its outputs. */
export interface CommandResult {
  readonly success: boolean;
  readonly output: string;
}

/** Runs a command; one that does not exist or takes longer than the bound in ms has failed. */
export async function runCommand(
  command: readonly string[],
  boundMs: number,
  options: Pick<SpawnOptions, "env" | "cwd"> = {},
): Promise<CommandResult> {
  let child: SpawnedProcess;
  try {
    child = spawnProcess(command, { ...options, stdout: "pipe", stderr: "pipe" });
  } catch (error) {
    return { success: false, output: String(error) };
  }
  const timer = setTimeout(() => child.kill("SIGKILL"), boundMs);
  const outputs = await Promise.all([text(child.stdout!), text(child.stderr!)]);
  const { code } = await child.ended;
  clearTimeout(timer);
  return { success: code === 0, output: outputs.join("") };
}
