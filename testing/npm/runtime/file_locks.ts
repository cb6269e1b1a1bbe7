/**
 * The port to locks of files on Node and Bun: takes the place of `testing/runtime/file_locks.ts` in bundled
 * tests. Uses flock(1), which Linux has.
 *
 * @module
 */
import { spawnSync } from "node:child_process";

/** The exit code of flock(1) for a file that is locked. */
const LOCKED = 1;

/** Whether a process has locked a file with flock(2). */
export function isFileLocked(path: string): boolean {
  const { status, error } = spawnSync("flock", ["--nonblock", path, "true"]);
  if (error !== undefined) throw error;
  return status === LOCKED;
}
