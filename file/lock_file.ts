/**
 * One lock file and the kernel's lock on it. The format of its content is in `record.ts`.
 *
 * @module
 */
import {
  decodeRecord,
  EMPTY_RECORD,
  encodeRecord,
  HELD_OFFSET,
  markBytes,
  nextToken,
  type Record,
  RECORD_BYTES,
  WANTED_OFFSET,
} from "./record.ts";
import { checkSingle, infoIfAt, isAt, openOrCreate, openRegular } from "./regular_file.ts";

/** After this many grants in a row an instance lets other processes try first. */
const FAIR_STREAK = 8;

/** The strategy instance that locks a file, as written into its record. */
export interface LockerId {
  /** Eight hex digits, one per instance. */
  readonly id: string;
  readonly label: string;
}

/** Where the file of a lock is. */
export interface LockPlace {
  readonly path: string;
  /** The name of the lock, written into a new file. */
  readonly name: string;
  /** The mode of a new file. */
  readonly fileMode: number;
}

/** A lock file that this process has locked. */
export interface HeldFile {
  readonly token: bigint;
  /**
   * Whether the path still leads to the locked file. If not, another process may have locked the file
   * that is there now.
   */
  isInPlace(): boolean;
  /** Marks the file as not held, and unlocks it. */
  release(): void;
}

/**
 * The locked file; `"held"` if another instance or process has locked it; `"yield"` if other processes
 * must get the chance to try first.
 */
export type TryLockResult = HeldFile | "held" | "yield";

/**
 * Tries to lock the file of a lock; creates it if it does not exist. All file operations are
 * synchronous: on a local disk each takes a few microseconds, a tenth of an asynchronous one.
 *
 * @param place Where the file is.
 * @param locker The instance that locks.
 * @param mayYield Whether to let others go first after {@linkcode FAIR_STREAK} grants in a row.
 * @returns The locked file, or why it is not locked.
 * @throws {SetupFault} If another file is at the path.
 * @throws {Error} If the file system refuses.
 */
export function tryLock(
  place: LockPlace,
  locker: LockerId,
  mayYield: boolean,
): TryLockResult {
  for (;;) {
    const file = openOrCreate(place.path, place.fileMode);
    if (file === null) return "held";
    try {
      const isLocked = file.tryLockSync(true);
      // The file may have been replaced between open and lock. Then others lock another file.
      const info = infoIfAt(file, place.path);
      if (info !== null) {
        checkSingle(info, place.path);
        if (isLocked) return holdFile(file, place, locker, mayYield);
        markWanted(file);
        file.close();
        return "held";
      }
    } catch (error) {
      file.close();
      throw error;
    }
    file.close();
  }
}

function holdFile(
  file: Deno.FsFile,
  { path, name }: LockPlace,
  locker: LockerId,
  mayYield: boolean,
): HeldFile | "yield" {
  const last = read(file);
  const isSameLocker = last.lockerId === locker.id;
  if (mayYield && isSameLocker && last.wanted && last.streak >= FAIR_STREAK) {
    file.close();
    return "yield";
  }
  const token = nextToken(last.token, Temporal.Now.instant().epochNanoseconds / 1_000n);
  const streak = isSameLocker && last.streak < FAIR_STREAK ? last.streak + 1 : 1;
  const record = {
    token,
    held: true,
    wanted: last.wanted && streak > 1,
    streak,
    lockerId: locker.id,
    label: locker.label,
  };
  write(file, 0, encodeRecord(record, last === EMPTY_RECORD ? name : undefined));
  return {
    token,
    isInPlace: () => isAt(file, path),
    release: () => {
      try {
        write(file, HELD_OFFSET, markBytes("not"));
      } catch {
        // query() checks the kernel's lock anyway if the mark says that the file is held.
      }
      file.close(); // the kernel unlocks the file
    },
  };
}

/** Reads the record of the file, without locking it. `null` if there is no file. */
export function peek(path: string): Record | null {
  using file = openRegular(path);
  return file === null ? null : read(file);
}

/** Whether the file is locked. If not, clears the mark that a dead holder may have left. */
export function isHeld(path: string): boolean {
  using file = openRegular(path);
  if (file === null) return false;
  if (!file.tryLockSync(true)) return true;
  if (!isAt(file, path)) return false;
  write(file, HELD_OFFSET, markBytes("not"));
  return false;
}

function markWanted(file: Deno.FsFile): void {
  const last = read(file);
  if (last !== EMPTY_RECORD && !last.wanted) write(file, WANTED_OFFSET, markBytes("wanted"));
}

function read(file: Deno.FsFile): Record {
  const bytes = new Uint8Array(RECORD_BYTES);
  file.seekSync(0, Deno.SeekMode.Start);
  const count = file.readSync(bytes) ?? 0;
  return decodeRecord(bytes.subarray(0, count));
}

function write(file: Deno.FsFile, offset: number, bytes: Uint8Array): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  const count = file.writeSync(bytes);
  if (count !== bytes.length) {
    throw new Error(`Wrote only ${count} of ${bytes.length} bytes: is the disk full?`);
  }
}
