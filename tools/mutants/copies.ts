/**
 * Copies of the work tree in a temporary folder, so that the user's own files are never mutated.
 *
 * @module
 */
import { chmod, mkdir, realpath, rm } from "node:fs/promises";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { runCommand } from "../../testing/servers/command.ts";

const COMMAND_BOUND_MS = 60_000;

/** Makes copies of a work tree as it was at first, and removes them on disposal. */
export class Copies implements AsyncDisposable {
  /** The hash of all that is copied: what git tracks, or would add. */
  readonly tree: string;
  readonly #root: string;
  readonly #folder: string;
  #count = 0;

  private constructor(root: string, folder: string, tree: string) {
    this.#root = root;
    this.#folder = folder;
    this.tree = tree;
  }

  /**
   * Looks at a work tree.
   *
   * @throws {Error} If it is not one of git.
   */
  static async of(root: string): Promise<Copies> {
    // Deno reports real paths.
    const folder = await realpath(await makeTempDirectory());
    await chmod(folder, 0o755); // Some tests start processes of other users.
    try {
      const git = gitIn(root, folder);
      await git("add", "--all");
      return new Copies(root, folder, (await git("write-tree")).trim());
    } catch (error) {
      await rm(folder, { recursive: true });
      throw error;
    }
  }

  /** Makes a copy; resolves with its path. */
  async make(): Promise<string> {
    const copy = `${this.#folder}/${++this.#count}`;
    await mkdir(copy);
    await gitIn(this.#root, this.#folder)("checkout-index", "--all", `--prefix=${copy}/`);
    return copy;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** The hash of the last commit. */
export async function commitOf(root: string): Promise<string> {
  return (await run(["git", "rev-parse", "HEAD"], root)).trim();
}

/** Runs git with an index in this folder: the user's own index stays as it is. */
function gitIn(root: string, folder: string): (...args: string[]) => Promise<string> {
  return (...args) => run(["git", ...args], root, { GIT_INDEX_FILE: `${folder}/index` });
}

async function run(
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { success, output } = await runCommand(command, COMMAND_BOUND_MS, { cwd, env });
  if (!success) throw new Error(`Cannot run ${command.join(" ")}: ${output.trim()}`);
  return output;
}
