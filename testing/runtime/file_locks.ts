/**
 * The port to locks of files, through which tests see that none is left.
 *
 * @module
 */

/** Whether a process has locked a file with flock(2). */
export function isFileLocked(path: string): boolean {
  using file = Deno.openSync(path, { read: true, write: true });
  return !file.tryLockSync(true);
}
