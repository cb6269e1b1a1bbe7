/**
 * Short-lived helper commands.
 *
 * @module
 */

/** How a command ended, and what it printed on both of its outputs. */
export interface CommandResult {
  readonly success: boolean;
  readonly output: string;
}

/** Runs a command; one that does not exist or takes too long has failed. */
export async function runCommand(
  command: readonly string[],
  boundMs: number,
): Promise<CommandResult> {
  const [program = "", ...args] = command;
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" })
      .spawn();
  } catch (error) {
    return { success: false, output: String(error) };
  }
  const timer = setTimeout(() => killQuietly(child), boundMs);
  const { success, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const decoder = new TextDecoder();
  return { success, output: decoder.decode(stdout) + decoder.decode(stderr) };
}

function killQuietly(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}
