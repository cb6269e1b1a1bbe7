import { existsSync } from "node:fs";
import {
  closeUnlocked,
  isOnlyAt,
  openOrCreate,
  openRegular,
  readAt,
  writeAt,
} from "./regular_file.ts";
import type { FileSystem, OpenFile } from "./system/port.ts";

/** A token, twice: if a write was cut off, the two differ. */
const SLOT = /^(\d{20}) \1\n/;
const SLOT_BYTES = 42;
/** Offsets of the two slots, in different sectors of a disk. */
const SLOTS = [0, 512] as const;
/** A read that meets a write is repeated. Each write takes a few microseconds. */
const READS = 100;
/** How often a grant tries to raise the floor. Each raise takes some 20 µs. */
const TRIES = 100;

/**
 * The file of a directory that holds the floor: no token of a deleted lock file is greater. It is never deleted.
 *
 * The floor is written alternately into two slots. If a process dies in the middle of a write, the other slot still
 * has the floor as it was before, and that process has not deleted its files.
 */
export class TokenFile {
  readonly #fs: FileSystem;
  readonly #path: string;
  readonly mode: number;

  constructor(fs: FileSystem, path: string, mode: number) {
    this.#fs = fs;
    this.#path = path;
    this.mode = mode;
  }

  /**
   * The token of the next grant: greater than `previous`, and at least the wall clock in µs. While the
   * clock is behind, each token raises the floor: so it is not granted twice if somebody removes the lock
   * file, and `previous` with it.
   */
  next(previous: bigint): bigint {
    const nowUs = this.#fs.wallUs();
    if (nowUs > previous) return nowUs;
    for (let tries = 0; tries < TRIES; tries++) {
      const token = this.#update((floor) => greater(floor, previous) + 1n);
      if (token !== null) return token;
    }
    return previous + 1n;
  }

  /** The floor; 0 if no lock file was deleted yet. */
  read(): bigint {
    const file = existsSync(this.#path) ? openRegular(this.#fs, this.#path) : null;
    if (file === null) return 0n;
    try {
      return readSteady(file).reduce(greater);
    } finally {
      file.close();
    }
  }

  /** Raises the floor to `token` if it is lower. Returns the floor; `null` if another process is raising it now. */
  raise(token: bigint): bigint | null {
    return this.#update((floor) => greater(floor, token));
  }

  #update(next: (floor: bigint) => bigint): bigint | null {
    const file = openOrCreate(this.#fs, this.#path, this.mode);
    if (file === null) return null;
    try {
      if (!file.tryLock(true)) return null;
      const info = file.stat();
      if (!isOnlyAt(this.#fs, info, this.#path)) return null;
      const slots = decode(readAll(file));
      const floor = slots.reduce(greater);
      const token = next(floor);
      if (token > floor) writeAt(file, SLOTS[slots.indexOf(floor) === 0 ? 1 : 0], encode(token));
      return token;
    } finally {
      closeUnlocked(file);
    }
  }
}

/** Reads the slots until two reads agree: another process may write both during one read. */
function readSteady(file: OpenFile): bigint[] {
  let last = readAll(file);
  for (let reads = 1; reads < READS; reads++) {
    const next = readAll(file);
    if (next === last) break;
    last = next;
  }
  return decode(last);
}

function readAll(file: OpenFile): string {
  return new TextDecoder("latin1").decode(readAt(file, 0, SLOTS[1] + SLOT_BYTES));
}

/** The tokens in the slots; 0 for a slot that is empty or damaged. */
function decode(text: string): bigint[] {
  return SLOTS.map((offset) => BigInt(SLOT.exec(text.slice(offset))?.[1] ?? 0));
}

function encode(token: bigint): Uint8Array {
  const digits = token.toString().padStart(20, "0");
  return new TextEncoder().encode(`${digits} ${digits}\n`);
}

function greater(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
