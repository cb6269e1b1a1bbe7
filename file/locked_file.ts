/**
 * One lock file and the kernel's lock on it: trying to lock it, looking at it, and its release. The format
 * of its content is in `record.ts`; it is deleted in `deletion.ts`.
 *
 * @module
 */
import type { LockPlace } from "./lock_directory.ts";
import {
  decodeRecord,
  EMPTY_RECORD,
  encodeRecord,
  HELD_OFFSET,
  MARKS,
  type Record,
  RECORD_BYTES,
  WANTED_OFFSET,
} from "./record.ts";
import {
  checkSingle,
  infoIfAt,
  isAt,
  openOrCreate,
  openRegular,
  readAt,
  writeAt,
} from "./regular_file.ts";
import type { FileInfo, FileSystem, OpenFile } from "./system/port.ts";

/** A file can change only a few times during one call, unless its file system is not a local one. */
const MAX_TRIES = 1_000;
/** After this many grants in a row an instance lets other processes try first. */
const FAIR_STREAK = 8;

/** The strategy instance that locks a file, as written into its record. */
export interface LockerId {
  /** Eight hex digits, one per instance. */
  readonly id: string;
  readonly label: string;
}

/**
 * Why a file was not locked:
 *
 * - `"held"`: another instance or process has locked it.
 * - `"unmarked"`: it is locked, but not marked as held. It may be free in a moment: an instance releases
 *   it, looks at it or deletes it. Or another program has locked it.
 * - `"yield"`: other processes must get the chance to try first.
 */
export type NotLocked = "held" | "unmarked" | "yield";

/** A lock file that this process has locked. */
export class LockedFile {
  readonly place: LockPlace;
  readonly token: bigint;
  readonly #file: OpenFile;
  readonly #info: FileInfo;

  constructor(place: LockPlace, token: bigint, file: OpenFile, info: FileInfo) {
    this.place = place;
    this.token = token;
    this.#file = file;
    this.#info = info;
  }

  /**
   * Whether the path still leads to the locked file. If not, another process may have locked the file
   * that is there now.
   */
  isInPlace(): boolean {
    return isAt(this.place.fs, this.#info, this.place.path);
  }

  /** Marks the file as not held, and unlocks it. */
  release(): void {
    try {
      writeAt(this.#file, HELD_OFFSET, MARKS.not);
    } catch {
      // A stale mark does no harm: query() asks the kernel.
    }
    unlock(this.#file);
    this.#file.close();
  }
}

/**
 * The kernel unlocks a file when it is closed. But a child process that is just being started has a copy of
 * the open file until it runs its program, and would keep the lock until then.
 */
function unlock(file: OpenFile): void {
  try {
    file.unlock();
  } catch {
    // The close follows.
  }
}

/**
 * Tries to lock the file of a lock; creates it if it does not exist. All file operations are
 * synchronous: on a local disk each takes a few microseconds, a tenth of an asynchronous one.
 *
 * @param place Where the file is.
 * @param locker The instance that locks.
 * @param mayYield Whether to let others go first after {@linkcode FAIR_STREAK} grants in a row.
 * @returns The locked file, or why it is not locked.
 * @throws {SetupFailure} If another kind of file is at the path.
 * @throws {Error} If the file system refuses.
 */
export function tryLock(
  place: LockPlace,
  locker: LockerId,
  mayYield: boolean,
): LockedFile | NotLocked {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const file = openOrCreate(place.fs, place.path, place.fileMode);
    if (file === null) return "unmarked";
    let result: LockedFile | NotLocked | "elsewhere" | null = null;
    try {
      result = tryLockOpen(file, place, locker, mayYield);
    } finally {
      if (!(result instanceof LockedFile)) file.close();
    }
    if (result !== "elsewhere") return result;
  }
  throw changing();
}

/** The same for an open file; `"elsewhere"` if the path no longer leads to it. */
function tryLockOpen(
  file: OpenFile,
  place: LockPlace,
  locker: LockerId,
  mayYield: boolean,
): LockedFile | NotLocked | "elsewhere" {
  const isLocked = file.tryLock(true);
  // It may have been deleted or replaced between open and lock. Then others lock another file.
  const info = infoIfAt(place.fs, file, place.path);
  if (info === null) return "elsewhere";
  checkSingle(info, place.path);
  const last = info.size === 0 ? EMPTY_RECORD : readRecord(file);
  if (!isLocked) {
    if (last !== EMPTY_RECORD && !last.wanted) writeAt(file, WANTED_OFFSET, MARKS.wanted);
    return last.held ? "held" : "unmarked";
  }
  const isSameLocker = last.lockerId === locker.id;
  if (mayYield && isSameLocker && last.wanted && last.streak >= FAIR_STREAK) return "yield";
  // An earlier file of this name may have been deleted.
  const previous = last === EMPTY_RECORD ? place.tokens.read() : last.token;
  const token = place.tokens.next(previous);
  const streak = isSameLocker && last.streak < FAIR_STREAK ? last.streak + 1 : 1;
  const wanted = last.wanted && streak > 1;
  const record = { token, held: true, wanted, streak, lockerId: locker.id, label: locker.label };
  writeAt(file, 0, encodeRecord(record, last === EMPTY_RECORD ? place.name : undefined));
  return new LockedFile(place, token, file, info);
}

/**
 * Looks whether a waiter should try to lock the file. A waiter that tries without success would wake all
 * the others, as it closes a file that it could write. A look does not.
 *
 * @returns `"free"` if it should try, because the file seems free, or must be marked as wanted.
 */
export function look(fs: FileSystem, path: string): "free" | "held" | "unmarked" {
  const file = openRegular(fs, path, "read");
  if (file === null) return "free";
  try {
    // A shared lock does not exclude other looks.
    if (file.tryLock(false)) {
      unlock(file);
      return "free";
    }
    if (infoIfAt(fs, file, path) === null) return "free";
    const { held, wanted, streak } = readRecord(file);
    if (!held) return "unmarked";
    // The mark is needed before the last grant of a streak. At the first one most waiters need not set it.
    return wanted || streak === 1 ? "held" : "free";
  } finally {
    file.close();
  }
}

/**
 * Finds out who has locked the file: the record of the holder; `"free"`; or `"unmarked"`, for a moment
 * while an instance looks at the file or deletes it, and for long if another program has locked it.
 * Creates no file. Clears the mark of a holder that was killed.
 */
export function observe(fs: FileSystem, path: string): Record | "free" | "unmarked" {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const file = openRegular(fs, path);
    if (file === null) return "free";
    try {
      const isFree = file.tryLock(true);
      const info = infoIfAt(fs, file, path);
      if (info === null) continue;
      checkSingle(info, path);
      const record = readRecord(file);
      if (!isFree) return record.held ? record : "unmarked";
      if (record.held) writeAt(file, HELD_OFFSET, MARKS.not);
      return "free";
    } finally {
      file.close();
    }
  }
  throw changing();
}

function changing(): Error {
  return new Error(
    "the file is another one at each look: is its directory on a local file system?",
  );
}

/** Reads the record of an open file. */
export function readRecord(file: OpenFile): Record {
  return decodeRecord(readAt(file, 0, RECORD_BYTES));
}
