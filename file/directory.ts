/**
 * The directory of the lock files: its default, its creation and check, and the paths in it.
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
 * @throws {Deno.errors.NotCapable} If the environment may not be read. There is no fallback: two
 * processes with different permissions could then use different directories, and both hold a lock.
 */
export function defaultDir(): string {
  for (const variable of RUNTIME_DIRS) {
    const dir = Deno.env.get(variable);
    if (dir) return join(dir, "holdfast");
  }
  return join("/tmp", "holdfast");
}

/** Creates the directory, accessible to this user only, if it does not exist. */
export function makeDir(dir: string): void {
  Deno.mkdirSync(dir, { recursive: true, mode: 0o700 });
}

/**
 * Checks that no other user may write to the directory: a user that can replace a lock file can
 * break its lock.
 *
 * @throws {Error} If other users may write to it.
 */
export function checkPrivate(dir: string): void {
  const { mode } = Deno.statSync(dir);
  if (mode !== null && (mode & 0o022) !== 0) {
    throw new Error(
      `The directory ${JSON.stringify(dir)} can be written to by other users: ` +
        "set its mode to 700, or choose another one with 'dir'",
    );
  }
}

/** The path of a lock's file. A digest names the file, since file systems limit length and case. */
export function lockPath(dir: string, name: string): string {
  return join(dir, `${createHash("sha256").update(name, "utf8").digest("hex")}.lock`);
}
