/**
 * Opens and creates regular files without following links, and tells whether a path still names an
 * open file. Nothing here knows their content or locks them.
 *
 * @module
 */
import { closeSync, existsSync, fchmodSync, openSync } from "node:fs";
import { codeOf, SetupFault } from "./faults.ts";

/** The mode of files that only their owner may open. */
export const PRIVATE_MODE = 0o600;
/** How long, in ms, another user's new file may be without its mode. */
const CREATED_WITHIN_MS = 2_000;

/** How a file is opened. To open it for reading only gives no event of a watch. */
export const ACCESS = { read: { read: true }, write: { read: true, write: true } } as const;

/**
 * Opens an existing file, for reading and writing by default; `null` if there is none.
 *
 * @throws {SetupFault} If the path is a link or no regular file: another file must not be written.
 */
export function openRegular(
  path: string,
  access: keyof typeof ACCESS = "write",
): Deno.FsFile | null {
  try {
    // Not opened at all if it is special: to open a pipe waits, to open a device may have effects.
    const { isSymlink, isFile, isDirectory } = Deno.lstatSync(path);
    if (isSymlink) throw refused(path, "a link");
    if (isDirectory) throw refused(path, "a directory");
    if (!isFile) throw refused(path, "no regular file");
    // Without `create`: the path may be a dangling link by now, and its target would be created.
    return Deno.openSync(path, ACCESS[access]);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/**
 * Opens a file, or creates it. `null` if another user is creating it right now. The caller must still
 * check {@linkcode infoIfAt} before it writes.
 */
export function openOrCreate(path: string, mode: number): Deno.FsFile | null {
  for (;;) {
    try {
      // An error for a file that does not exist would cost more than all the rest.
      const file = (existsSync(path) ? null : create(path, mode)) ?? openRegular(path);
      if (file !== null) return file;
    } catch (error) {
      if (mode === PRIVATE_MODE || !isBeingCreated(error, path)) throw error;
      return null;
    }
  }
}

/** `null` if the file exists by now. */
function create(path: string, mode: number): Deno.FsFile | null {
  try {
    if (mode !== PRIVATE_MODE) return createShared(path, mode);
    return Deno.openSync(path, { read: true, write: true, createNew: true, mode });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return null;
    throw error;
  }
}

/** Sets the mode through the open file: the umask may withhold a part, and `chmod` follows links. */
function createShared(path: string, mode: number): Deno.FsFile | null {
  const file = openSync(path, "wx", PRIVATE_MODE);
  try {
    fchmodSync(file, mode);
  } finally {
    closeSync(file);
  }
  return openRegular(path);
}

function isBeingCreated(error: unknown, path: string): boolean {
  if (codeOf(error) !== "EACCES") return false;
  const { size, mtime } = Deno.lstatSync(path);
  return size === 0 && Math.abs(Date.now() - Number(mtime)) < CREATED_WITHIN_MS;
}

/** The information about an open file if the path still names it, else `null`. */
export function infoIfAt(file: Deno.FsFile, path: string): Deno.FileInfo | null {
  const info = file.statSync();
  return isAt(info, path) ? info : null;
}

/** Whether the path still names an open file. If not, another process may lock the file there. */
export function isAt({ ino, dev }: Deno.FileInfo, path: string): boolean {
  try {
    const named = Deno.lstatSync(path);
    return named.ino === ino && named.dev === dev;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/**
 * Checks that a file may be written: it has no other name, which could be that of any file.
 *
 * @throws {SetupFault} If it has one.
 */
export function checkSingle({ nlink }: Deno.FileInfo, path: string): void {
  if ((nlink ?? 1) > 1) throw refused(path, "a file with a second name (a hard link)");
}

function refused(path: string, what: string): SetupFault {
  return new SetupFault(`${JSON.stringify(path)} is ${what}: remove it if no process needs it`);
}
