/**
 * One lock file and the kernel's lock on it.
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

/** After so many grants in a row a process lets the others have a try. */
const FAIR_STREAK = 8;

/** The instance that locks a file, as its record names it. */
export interface LockerId {
  /** Eight hex digits, one per instance. */
  readonly id: string;
  readonly label: string;
}

/** A lock file that this process has locked. */
export interface HeldFile {
  readonly token: bigint;
  /** Whether the path still names the file that is locked; if not, another process can lock it. */
  isInPlace(): boolean;
  /** Unlocks. */
  release(): void;
}

/** The result of a try: the locked file, "held" by another process, or "yield" to other processes. */
export type TryLockResult = HeldFile | "held" | "yield";

/**
 * Tries to lock the file at `path`, which is made if need be. The calls are synchronous: each takes
 * some microseconds on a local disk, a tenth of what handing it to a thread costs.
 *
 * @param mayYield Whether to hold back after {@linkcode FAIR_STREAK} grants in a row.
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
      // Somebody may have replaced the file between open and lock: then this lock excludes nobody.
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
  const again = last.taker === locker.id;
  if (mayYield && again && last.wanted && last.streak >= FAIR_STREAK) {
    file.close();
    return "yield";
  }
  const token = nextToken(last.token, Temporal.Now.instant().epochNanoseconds / 1_000n);
  const streak = again && last.streak < FAIR_STREAK ? last.streak + 1 : 1;
  const record = {
    token,
    held: true,
    wanted: last.wanted && streak > 1,
    streak,
    taker: locker.id,
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
        // The mark only spares query() a look at the lock itself.
      }
      file.close(); // the kernel unlocks with it
    },
  };
}

/** What stands in the file, `null` if there is none. Does not touch the lock. */
export function peek(path: string): Record | null {
  try {
    using file = Deno.openSync(path, { read: true });
    return read(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Whether somebody holds the lock. A mark that a dead holder left is wiped. */
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
