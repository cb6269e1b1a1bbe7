/**
 * Deletes lock files that nobody holds. When that happens is in `cleaner.ts`; why it is safe is in
 * [ADR 24](../docs/adr/0024-files-who-may-write-and-deletion.md).
 *
 * @module
 */
import { readRecord } from "./lock_file.ts";
import { EMPTY_RECORD, type Record } from "./record.ts";
import { infoIfAt, openRegular } from "./regular_file.ts";
import type { FileInfo, FileSystem, OpenFile } from "./system/port.ts";
import type { TokenFile } from "./tokens.ts";

/**
 * Deletes the files that nobody has locked. Locks each one for that: only the process that has locked
 * the file which the path names may delete it, and it deletes before it unlocks. A process that opened
 * the file before finds the path changed when it has locked it, and starts over.
 *
 * @param fs The file system of the runtime.
 * @param paths The paths of lock files. An error leaves a file as it is: deletion is never needed.
 * @param tokens The file that remembers their tokens.
 * @param isSpared Whether a file stays.
 * @returns The paths that were not looked at, because another process was writing the tokens.
 */
export function deleteUnused(
  fs: FileSystem,
  paths: readonly string[],
  tokens: TokenFile,
  isSpared: (record: Record) => boolean,
): readonly string[] {
  const floor = new Floor(tokens);
  for (const [i, path] of paths.entries()) {
    try {
      if (!deleteOne(fs, path, floor, isSpared)) return paths.slice(i);
    } catch {
      // For instance the process has too many open files, or another user owns the file.
    }
  }
  return [];
}

/** Returns false if the floor could not be raised. */
function deleteOne(
  fs: FileSystem,
  path: string,
  floor: Floor,
  isSpared: (record: Record) => boolean,
): boolean {
  const file = openRegular(fs, path);
  if (file === null) return true;
  try {
    return !file.tryLock(true) || deleteLocked(fs, file, path, floor, isSpared);
  } finally {
    file.close();
  }
}

/** The same for a file that this process has locked. */
function deleteLocked(
  fs: FileSystem,
  file: OpenFile,
  path: string,
  floor: Floor,
  isSpared: (record: Record) => boolean,
): boolean {
  const info = infoIfAt(fs, file, path);
  if (info === null || !hasExactId(info)) return true;
  const record = readRecord(file);
  if (record === EMPTY_RECORD && info.size > 0) return true; // Perhaps it is no lock file.
  if (isSpared(record)) return true;
  if (!floor.raise(record.token)) return false;
  fs.unlink(path);
  return true;
}

/** Raises the floor of the tokens once for several files, as the wall clock is ahead of most tokens. */
class Floor {
  readonly #tokens: TokenFile;
  #token = 0n;

  constructor(tokens: TokenFile) {
    this.#tokens = tokens;
  }

  raise(token: bigint): boolean {
    if (token <= this.#token) return true;
    const nowUs = this.#tokens.wallUs();
    const raised = this.#tokens.raise(nowUs > token ? nowUs : token);
    if (raised !== null) this.#token = raised;
    return raised !== null;
  }
}

/**
 * Whether two files cannot seem to be the same one. A `number` is exact up to 2^53 only, and some file
 * systems have larger ones.
 */
export function hasExactId({ ino, dev }: Pick<FileInfo, "ino" | "dev">): boolean {
  return isExact(ino) && Number(ino) !== 0 && isExact(dev);
}

function isExact(number: number | bigint | null): boolean {
  return typeof number === "bigint" || Number.isSafeInteger(number);
}
