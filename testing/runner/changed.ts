/**
 * Asks git which files a change touched.
 *
 * @module
 */
import { runCommand } from "../servers/command.ts";

const GIT_BOUND_MS = 30_000;

/**
 * The paths, relative to the root, of the files that differ from a revision, committed or not.
 *
 * @throws {Error} If git does not know the revision.
 */
export async function changedFiles(revision: string, root: string): Promise<Set<string>> {
  // `-z`: git would quote unusual names.
  const command = [
    "git",
    "diff",
    "--name-only",
    "-z",
    "--relative",
    "--end-of-options",
    revision,
    "--",
  ];
  const { success, output } = await runCommand(command, GIT_BOUND_MS, { cwd: root });
  if (!success) throw new Error(`Cannot compare with "${revision}": ${output.trim()}`);
  return new Set(output.split("\0").filter((path) => path !== ""));
}
