/**
 * The port to locks of files: through it tests see that none is left, and share the ports of a machine.
 *
 * @module
 */

/** Whether a process has locked a file with flock(2). */
export function isFileLocked(path: string): boolean {
  using file = Deno.openSync(path, { read: true, write: true });
  return !file.tryLockSync(true);
}

/**
 * Creates a file and locks it with flock(2) until this process ends. Returns false if another process, or
 * another user, has it.
 */
export function tryLockFile(path: string): boolean {
  let file: Deno.FsFile;
  try {
    file = openOrCreate(path);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
  if (file.tryLockSync(true)) return true;
  file.close();
  return false;
}

/** Opens for reading, if it can: other users may not write. */
function openOrCreate(path: string): Deno.FsFile {
  try {
    return Deno.openSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return Deno.openSync(path, { read: true, write: true, create: true });
  }
}
