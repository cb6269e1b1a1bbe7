/**
 * Regular files, opened and created without following links. Nothing here knows their content.
 *
 * @module
 */
import { closeSync, existsSync, fchmodSync, openSync } from "node:fs";
import { codeOf, SetupFailure } from "./failures.ts";
import type { FileInfo, FileSystem, OpenFile } from "./system/port.ts";

export const PRIVATE_MODE = 0o600;
/** How long, in ms, another user's new file may be without its mode. */
const CREATED_WITHIN_MS = 2_000;

/**
 * Opens an existing file; `null` if there is none, or if another user is creating it right now: nobody has locked it
 * yet. Throws a {@linkcode SetupFailure} if it is a link or not a regular file: another file must not be written.
 */
export function openRegular(
  fs: FileSystem,
  path: string,
  access: "read" | "write" = "write",
): OpenFile | null {
  let isNew = false;
  try {
    // Not opened at all if it is special: to open a pipe waits, to open a device may have effects.
    const { isSymlink, isFile, isDirectory, size, mtime } = fs.lstat(path);
    if (isSymlink) throw refused(path, "a link");
    if (isDirectory) throw refused(path, "a directory");
    if (!isFile) throw refused(path, "no regular file");
    // It gets its mode before its content.
    isNew = size === 0 && Math.abs(Date.now() - Number(mtime)) < CREATED_WITHIN_MS;
    // Without `create`: the path may be a dangling link by now, and its target would be created.
    return fs.open(path, access);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT" || (code === "EACCES" && isNew)) return null;
    throw error;
  }
}

/** `null` if another user is creating it now. The caller must check {@linkcode isOnlyAt} before it writes. */
export function openOrCreate(fs: FileSystem, path: string, mode: number): OpenFile | null {
  for (;;) {
    // An error for a file that does not exist would cost more than all the rest.
    const file = (existsSync(path) ? null : create(fs, path, mode)) ?? openRegular(fs, path);
    if (file !== null || existsSync(path)) return file;
  }
}

/** `null` if the file exists by now. */
function create(fs: FileSystem, path: string, mode: number): OpenFile | null {
  try {
    if (mode !== PRIVATE_MODE) return createShared(fs, path, mode);
    return fs.create(path, mode);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return null;
    throw error;
  }
}

/** Sets the mode through the open file: the umask may withhold a part, and `chmod` follows links. */
function createShared(fs: FileSystem, path: string, mode: number): OpenFile | null {
  const file = openSync(path, "wx", PRIVATE_MODE);
  try {
    fchmodSync(file, mode);
  } finally {
    closeSync(file);
  }
  return openRegular(fs, path);
}

/** Whether the path still names an open file. */
export function isAt(fs: FileSystem, info: FileInfo, path: string): boolean {
  return namedAt(fs, info, path) !== null;
}

/**
 * The same, of a file that is to be written. Throws a {@linkcode SetupFailure} if it has another name, which could be
 * that of any file. One look tells both: between two a link could come and go.
 */
export function isOnlyAt(fs: FileSystem, info: FileInfo, path: string): boolean {
  const named = namedAt(fs, info, path);
  if ((named?.nlink ?? 1) > 1) throw refused(path, "a file with a second name (a hard link)");
  return named !== null;
}

/** What the path names, if that is the open file. */
function namedAt(fs: FileSystem, { ino, dev }: FileInfo, path: string): FileInfo | null {
  try {
    const named = fs.lstat(path);
    return named.ino === ino && named.dev === dev ? named : null;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/**
 * Whether no process takes another file for this one. Some file systems have numbers above 2^53: Deno rounds
 * them. So Node and Bun, which do not, must not delete such a file either: Deno may be about to lock it.
 */
export function hasExactId({ ino, dev }: Pick<FileInfo, "ino" | "dev">): boolean {
  return isExact(ino) && Number(ino) !== 0 && isExact(dev);
}

function isExact(number: number | bigint | null): boolean {
  return number !== null && Number.isSafeInteger(Number(number));
}

function refused(path: string, what: string): SetupFailure {
  return new SetupFailure(`${JSON.stringify(path)} is ${what}: remove it if no process needs it`);
}

/**
 * Closes a file that may be locked. The close alone would unlock it, too, but a child process that is just being
 * started has a copy of the open file until it runs its program, and would keep the lock until then.
 */
export function closeUnlocked(file: OpenFile): void {
  try {
    file.unlock();
  } catch {
    // The close follows.
  }
  file.close();
}

/** Reads up to `length` bytes; fewer at the end of the file. */
export function readAt(file: OpenFile, offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, file.read(offset, bytes));
}

/** Writes all bytes in one call; throws if only a part could be written. */
export function writeAt(file: OpenFile, offset: number, bytes: Uint8Array): void {
  const count = file.write(offset, bytes);
  if (count !== bytes.length) {
    throw new Error(`Wrote only ${count} of ${bytes.length} bytes: is the disk full?`);
  }
}
