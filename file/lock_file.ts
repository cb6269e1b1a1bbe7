/**
 * One lock file and the kernel's lock on it. The format of the file is in `record.ts`.
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

/** After so many grants in a row a process lets the others try first. */
const FAIR_STREAK = 8;

/** The instance that locks a file, as its record identifies it. */
export interface LockerId {
  /** Eight hex digits, one per instance. */
  readonly id: string;
  readonly label: string;
}

/** A lock file that this process has locked. */
export interface HeldFile {
  readonly token: bigint;
  /** Whether the path still leads to the locked file; if not, another process can hold the lock. */
  isInPlace(): boolean;
  /** Unlocks. */
  release(): void;
}

/** The locked file; "held" if another process has it; "yield" if other processes go first. */
export type TryLockResult = HeldFile | "held" | "yield";

/**
 * Tries to lock the file at `path`; creates it if it does not exist. The calls are synchronous: each
 * takes some microseconds on a local disk, a tenth of the time of a call in a thread.
 *
 * @param mayYield Whether to let others go first after {@linkcode FAIR_STREAK} grants in a row.
 */
export function tryLock(
  path: string,
  name: string,
  locker: LockerId,
  mayYield: boolean,
): TryLockResult {
  for (;;) {
    const file = openFile(path);
    try {
      if (!file.tryLockSync(true)) {
        markWanted(file);
        file.close();
        return "held";
      }
      // The file may have been replaced between open and lock: then this lock excludes nobody.
      if (isSameFile(file, path)) return holdFile(file, path, name, locker, mayYield);
    } catch (error) {
      file.close();
      throw error;
    }
    file.close();
  }
}

function holdFile(
  file: Deno.FsFile,
  path: string,
  name: string,
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
    isInPlace: () => isSameFile(file, path),
    release: () => {
      try {
        write(file, HELD_OFFSET, markBytes("not"));
      } catch {
        // The mark only lets query() skip the check of the kernel's lock.
      }
      file.close(); // the kernel unlocks the file
    },
  };
}

/** The record of the file, `null` if there is no file. Does not touch the lock. */
export function peek(path: string): Record | null {
  try {
    using file = Deno.openSync(path, { read: true });
    return read(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Whether a process holds the lock. Clears the mark of a holder that died. */
export function isHeld(path: string): boolean {
  using file = openFile(path);
  if (!file.tryLockSync(true)) return true;
  write(file, HELD_OFFSET, markBytes("not"));
  return false;
}

function openFile(path: string): Deno.FsFile {
  return Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
}

function isSameFile(file: Deno.FsFile, path: string): boolean {
  try {
    const [mine, named] = [file.statSync(), Deno.statSync(path)];
    return mine.ino === named.ino && mine.dev === named.dev;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
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
  if (count !== bytes.length) throw new Error(`Wrote ${count} of ${bytes.length} bytes`);
}
