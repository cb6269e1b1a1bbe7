/**
 * Runs short-lived commands and collects their output.
 *
 * @module
 */
import { text } from "node:stream/consumers";
import { type SpawnedProcess, type SpawnOptions, spawnProcess } from "../runtime/processes.ts";

/** Whether a command succeeded, and its standard output followed by its error output. */
export interface CommandResult {
  readonly success: boolean;
  readonly output: string;
}

/** Runs a command. It fails if it does not exist, or is killed after `boundMs`. */
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
