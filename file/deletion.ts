/**
 * Deletes lock files that nobody holds. When that happens is in `cleaner.ts`; why it is safe is in
 * [ADR 24](../docs/adr/0024-files-who-may-write-and-deletion.md).
 *
 * @module
 */
import { readRecord } from "./lock_file.ts";
import { EMPTY_RECORD, type Record } from "./record.ts";
import { infoIfAt, openRegular } from "./regular_file.ts";
import { type TokenFile, wallUs } from "./tokens.ts";

/**
 * Deletes the files that nobody has locked. Locks each one for that: only the process that has locked
 * the file which the path names may delete it, and it deletes before it unlocks. A process that opened
 * the file before finds the path changed when it has locked it, and starts over.
 *
 * @param paths The paths of lock files. An error leaves a file as it is: deletion is never needed.
 * @param tokens The file that remembers their tokens.
 * @param isSpared Whether a file stays.
 * @returns The paths that were not looked at, because another process was writing the tokens.
 */
export function deleteUnused(
  paths: readonly string[],
  tokens: TokenFile,
  isSpared: (record: Record) => boolean,
): readonly string[] {
  const floor = new Floor(tokens);
  for (const [i, path] of paths.entries()) {
    try {
      if (!deleteOne(path, floor, isSpared)) return paths.slice(i);
    } catch {
      // For instance the process has too many open files, or another user owns the file.
    }
  }
  return [];
}

/** Returns false if the floor could not be raised. */
function deleteOne(path: string, floor: Floor, isSpared: (record: Record) => boolean): boolean {
  using file = openRegular(path);
  if (file === null || !file.tryLockSync(true)) return true;
  const info = infoIfAt(file, path);
  if (info === null || !hasExactId(info)) return true;
  const record = readRecord(file);
  if (record === EMPTY_RECORD && info.size > 0) return true; // Perhaps it is no lock file.
  if (isSpared(record)) return true;
  if (!floor.raise(record.token)) return false;
  Deno.removeSync(path);
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
    const nowUs = wallUs();
    const raised = this.#tokens.raise(nowUs > token ? nowUs : token);
    if (raised !== null) this.#token = raised;
    return raised !== null;
  }
}

/**
 * Whether two files cannot seem to be the same one. The numbers of the runtime are exact up to 2^53
 * only, and some file systems have larger ones.
 */
export function hasExactId({ ino, dev }: Pick<Deno.FileInfo, "ino" | "dev">): boolean {
  return Number.isSafeInteger(ino) && ino !== 0 && Number.isSafeInteger(dev);
}
