/**
 * Where lock files live.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { join } from "node:path";

/** Environment variables that name a directory of the user's own, the best one first. */
const RUNTIME_DIRS = ["XDG_RUNTIME_DIR", "TMPDIR", "TMP", "TEMP"];

/**
 * The default directory: `holdfast` in the user's runtime or temporary directory.
 *
 * @throws {Deno.errors.NotCapable} If the environment may not be read. Guessing would let two
 * processes with different permissions choose different directories and exclude nobody.
 */
export function defaultDir(): string {
  for (const variable of RUNTIME_DIRS) {
    const dir = Deno.env.get(variable);
    if (dir) return join(dir, "holdfast");
  }
  return join("/tmp", "holdfast");
}

/** Makes the directory if need be, for this user only. */
export function makeDir(dir: string): void {
  Deno.mkdirSync(dir, { recursive: true, mode: 0o700 });
}

/**
 * Refuses a directory that others may write to: whoever can replace a lock file can break its lock.
 */
export function checkPrivate(dir: string): void {
  const { mode } = Deno.statSync(dir);
  if (mode !== null && (mode & 0o022) !== 0) {
    throw new Error(`The directory ${JSON.stringify(dir)} can be written to by other users`);
  }
}

/** The file of a lock. Names differ in case and length as file systems do not allow: so a digest. */
export function lockPath(dir: string, name: string): string {
  return join(dir, `${createHash("sha256").update(name, "utf8").digest("hex")}.lock`);
}
