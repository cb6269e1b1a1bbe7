/**
 * The directory of the lock files: its default, its checks, and the path of a lock.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { join } from "node:path";

/** Environment variables that name a directory of the user, in order of preference. */
const RUNTIME_DIRS = ["XDG_RUNTIME_DIR", "TMPDIR", "TMP", "TEMP"];

/**
 * The default directory: `holdfast` in the user's runtime or temporary directory.
 *
 * @throws {Deno.errors.NotCapable} If the environment may not be read. A guess could let two
 * processes with different permissions choose different directories, which would exclude nobody.
 */
export function defaultDir(): string {
  for (const variable of RUNTIME_DIRS) {
    const dir = Deno.env.get(variable);
    if (dir) return join(dir, "holdfast");
  }
  return join("/tmp", "holdfast");
}

/** Creates the directory if it does not exist, for this user only. */
export function makeDir(dir: string): void {
  Deno.mkdirSync(dir, { recursive: true, mode: 0o700 });
}

/**
 * Rejects a directory that other users may write to: a user that can replace a lock file can break
 * its lock.
 */
export function checkPrivate(dir: string): void {
  const { mode } = Deno.statSync(dir);
  if (mode !== null && (mode & 0o022) !== 0) {
    throw new Error(`The directory ${JSON.stringify(dir)} can be written to by other users`);
  }
}

/** The file of a lock: a digest, since file systems limit the case and length of names. */
export function lockPath(dir: string, name: string): string {
  return join(dir, `${createHash("sha256").update(name, "utf8").digest("hex")}.lock`);
}
