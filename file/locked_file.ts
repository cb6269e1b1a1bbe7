/**
 * One lock file: how it is locked, looked at and released, and its format: a header of fixed width, which
 * one write replaces, then the lock's name. It is deleted in `deletion.ts`.
 *
 * @module
 */
import {
  closeUnlocked,
  hasExactId,
  isAt,
  isOnlyAt,
  openOrCreate,
  openRegular,
  readAt,
  writeAt,
} from "./regular_file.ts";
import type { FileInfo, FileSystem, OpenFile } from "./system/port.ts";
import type { TokenFile } from "./tokens.ts";

/** A file can change only a few times during one call, unless its file system is not a local one. */
const MAX_TRIES = 1_000;
/** After this many grants in a row an instance lets other processes try first. */
const FAIR_STREAK = 8;

/** The file of a lock, which may not exist yet. */
export interface LockFile {
  readonly fs: FileSystem;
  readonly path: string;
  /** The name of the lock, written into a new file. */
  readonly name: string;
  readonly isKept: boolean;
  /** The tokens of deleted files in the same directory. */
  readonly tokens: TokenFile;
}

export interface Record {
  readonly token: bigint;
  /** Whether the lock was granted and not released. A holder that dies leaves `true` behind. */
  readonly held: boolean;
  /** Whether another process waits: a failed try sets this mark, the grant that begins a streak clears it. */
  readonly wanted: boolean;
  /** How many grants in a row went to {@linkcode Record.lockerId}. */
  readonly streak: number;
  /** Eight hex digits that identify the instance that locked the file last. */
  readonly lockerId: string;
  readonly label: string;
}

export const EMPTY_RECORD: Record = {
  token: 0n,
  held: false,
  wanted: false,
  streak: 0,
  lockerId: "",
  label: "",
};

/** Offset of the byte that is `h` if the lock is held, else `-`. */
export const HELD_OFFSET = 21;
/** Offset of the byte that is `w` if another process waits, else `-`. */
export const WANTED_OFFSET = 23;
/** Width of the header in bytes: the fields, a label of up to 100 escaped code units, a line break. */
export const RECORD_BYTES = 40 + 2 + 100 * 6 + 1;

/** Width of the longest name: 1,000 escaped code units, quotes, a line break. */
const MAX_NAME_BYTES = 1_000 * 6 + 3;

const FIELDS = /^(\d{20}) ([h-]) ([w-]) (\d{2}) ([0-9a-f]{8}) ("[^\n]*")\s*$/;
const MARK = { held: "h", wanted: "w", not: "-" } as const;

export const MARKS = {
  wanted: new TextEncoder().encode(MARK.wanted),
  not: new TextEncoder().encode(MARK.not),
} as const;

/**
 * Why a file was not locked:
 *
 * - `"held"`: another instance or process has locked it.
 * - `"unmarked"`: it is locked, but not marked as held. It may be free in a moment: an instance releases
 *   it, looks at it or deletes it. Or another program has locked it.
 * - `"yield"`: other processes must get the chance to try first.
 */
export type NotLocked = "held" | "unmarked" | "yield";

export class LockedFile {
  readonly file: LockFile;
  readonly token: bigint;
  readonly #opened: OpenFile;
  readonly #info: FileInfo;

  constructor(file: LockFile, token: bigint, opened: OpenFile, info: FileInfo) {
    this.file = file;
    this.token = token;
    this.#opened = opened;
    this.#info = info;
  }

  /** Whether the path still leads to the file. If not, another process may have locked the one there now. */
  isAtPath(): boolean {
    return isAt(this.file.fs, this.#info, this.file.path);
  }

  /** Marks it as not held, and unlocks it. Returns whether the path led to it until now; `false` if unknown. */
  release(): boolean {
    let wasAtPath = false;
    try {
      wasAtPath = this.isAtPath();
    } catch {
      // The file system does not tell.
    }
    try {
      writeAt(this.#opened, HELD_OFFSET, MARKS.not);
    } catch {
      // A stale mark shows only while another program has locked the file: query() asks the kernel.
    }
    try {
      closeUnlocked(this.#opened);
    } catch {
      // The descriptor is gone all the same: it cannot be released again.
    }
    return wasAtPath;
  }
}

/**
 * Tries to lock the file of a lock; creates it if it does not exist. All file operations are synchronous: on a local
 * disk each takes a few microseconds, a tenth of an asynchronous one. `mayYield`: others go first after
 * {@linkcode FAIR_STREAK} grants in a row.
 */
export function tryLock(
  file: LockFile,
  locker: Pick<Record, "lockerId" | "label">,
  mayYield: boolean,
): LockedFile | NotLocked {
  const { fs, path, name, tokens } = file;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const opened = openOrCreate(fs, path, tokens.mode);
    if (opened === null) return "unmarked";
    let locked: LockedFile | null = null;
    try {
      const isLocked = opened.tryLock(true);
      const info = opened.stat();
      // It may have been deleted or replaced between open and lock. Then others lock another file.
      if (!isOnlyAt(fs, info, path)) continue;
      const last = info.size === 0 ? EMPTY_RECORD : readRecord(opened);
      if (!isLocked) {
        if (last !== EMPTY_RECORD && !last.wanted) writeAt(opened, WANTED_OFFSET, MARKS.wanted);
        // The mark is one that a killed holder has left if others only look.
        return last.held && !opened.tryLock(false) ? "held" : "unmarked";
      }
      const isSameLocker = last.lockerId === locker.lockerId;
      if (mayYield && isSameLocker && last.wanted && last.streak >= FAIR_STREAK) return "yield";
      const streak = isSameLocker && last.streak < FAIR_STREAK ? last.streak + 1 : 1;
      try {
        // An earlier file of this name may have been deleted.
        const token = tokens.next(last === EMPTY_RECORD ? tokens.read() : last.token);
        const record = { ...locker, token, held: true, wanted: last.wanted && streak > 1, streak };
        writeAt(opened, 0, encodeRecord(record, last === EMPTY_RECORD ? name : undefined));
        return locked = new LockedFile(file, token, opened, info);
      } catch (error) {
        if (info.size === 0) discard(file, info);
        throw error;
      }
    } finally {
      if (locked === null) closeUnlocked(opened);
    }
  }
  throw changing();
}

/** Removes a locked file without a record: on a full disk each name would leave one. */
function discard({ fs, path, isKept }: LockFile, info: FileInfo): void {
  if (isKept || !hasExactId(info)) return;
  try {
    fs.unlink(path);
  } catch {
    // The first error is the one to report.
  }
}

/**
 * Looks whether a waiter should try to lock the file: `"free"` if it seems free, or must be marked as wanted. A try
 * that fails wakes all the others, as it closes a file that it could write. A look does not.
 */
export function look(fs: FileSystem, path: string): "free" | "held" | "unmarked" {
  const file = openRegular(fs, path, "read");
  if (file === null) return "free";
  try {
    // A shared lock does not exclude other looks.
    if (file.tryLock(false)) return "free";
    if (!isAt(fs, file.stat(), path)) return "free";
    const { held, wanted, streak } = readRecord(file);
    if (!held) return "unmarked";
    // The mark is needed before the last grant of a streak. At the first one most waiters need not set it.
    return wanted || streak === 1 ? "held" : "free";
  } finally {
    closeUnlocked(file);
  }
}

/**
 * Finds out who has locked the file: the record of the holder, `"free"`, or `"unmarked"` (see {@linkcode NotLocked}).
 * Creates no file. Clears the mark of a holder that was killed.
 */
export function observe(fs: FileSystem, path: string): Record | "free" | "unmarked" {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const file = openRegular(fs, path);
    if (file === null) return "free";
    try {
      const isFree = file.tryLock(false); // Others can observe it at the same time.
      const info = file.stat();
      if (!isOnlyAt(fs, info, path)) continue;
      const record = readRecord(file);
      if (!isFree) return record.held ? record : "unmarked";
      if (record.held) writeAt(file, HELD_OFFSET, MARKS.not);
      return "free";
    } finally {
      closeUnlocked(file);
    }
  }
  throw changing();
}

function changing(): Error {
  return new Error(
    "the file is another one at each look: is its directory on a local file system?",
  );
}

/**
 * Reads the lock's name, which is never overwritten. `null` if there is none: the file is gone, just being
 * created, or damaged. Opened for reading only, so that no waiter is woken.
 */
export function readName(fs: FileSystem, path: string): string | null {
  const file = openRegular(fs, path, "read");
  if (file === null) return null;
  try {
    const text = new TextDecoder().decode(readAt(file, RECORD_BYTES, MAX_NAME_BYTES));
    const name: unknown = JSON.parse(text.slice(0, text.indexOf("\n")));
    return typeof name === "string" ? name : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  } finally {
    file.close();
  }
}

export function readRecord(file: OpenFile): Record {
  return decodeRecord(readAt(file, 0, RECORD_BYTES));
}

/** Writes text as a JSON string in ASCII, so that its width in bytes is its length. */
function ascii(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Writes a header, and the lock's name behind it for a file that is new. */
export function encodeRecord(record: Record, name?: string): Uint8Array {
  const fields = [
    record.token.toString().padStart(20, "0"),
    record.held ? MARK.held : MARK.not,
    record.wanted ? MARK.wanted : MARK.not,
    record.streak.toString().padStart(2, "0"),
    record.lockerId,
    ascii(record.label),
  ];
  const header = fields.join(" ").padEnd(RECORD_BYTES - 1) + "\n";
  return new TextEncoder().encode(name === undefined ? header : `${header}${ascii(name)}\n`);
}

/** Reads a header. A damaged one counts as empty: tokens still grow, as they are at least the wall clock. */
export function decodeRecord(bytes: Uint8Array): Record {
  const fields = FIELDS.exec(new TextDecoder().decode(bytes.subarray(0, RECORD_BYTES)));
  if (fields === null) return EMPTY_RECORD;
  const [, token, held, wanted, streak, lockerId, label] = fields;
  return {
    token: BigInt(token!),
    held: held === MARK.held,
    wanted: wanted === MARK.wanted,
    streak: Number(streak),
    lockerId: lockerId!,
    label: parseLabel(label!),
  };
}

function parseLabel(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return "";
  }
}
