/**
 * Reads and writes tar archives of regular files. The same files always give the same bytes.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** The files of an archive, by their paths. */
export type Files = ReadonlyMap<string, Uint8Array>;

const BLOCK = 512;
const MAX_PATH = 100;
/** Where the fields of a header begin, and their lengths. */
const SIZE_AT = 124;
const SIZE_LENGTH = 12;
const SUM_AT = 148;
const TYPE_AT = 156;
/** The types of a regular file: "0", or none in old archives. */
const REGULAR: ReadonlySet<number> = new Set([0x30, 0]);

/** Reads an archive. Only regular files are kept. */
export function readTar(archive: Buffer): Files {
  const files = new Map<string, Uint8Array>();
  for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0;) {
    const path = textAt(archive, at, MAX_PATH);
    const size = parseInt(textAt(archive, at + SIZE_AT, SIZE_LENGTH), 8);
    const start = at + BLOCK;
    if (REGULAR.has(archive[at + TYPE_AT]!)) {
      files.set(path, archive.subarray(start, start + size));
    }
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

/**
 * Writes an archive.
 *
 * @throws {Error} If a path is too long for its header.
 */
export function writeTar(files: Files): Buffer {
  const parts = [...files].flatMap(([path, bytes]) => [
    headerOf(path, bytes.length),
    bytes,
    Buffer.alloc(-bytes.length & BLOCK - 1),
  ]);
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function textAt(archive: Buffer, at: number, length: number): string {
  return archive.toString("utf8", at, at + length).replace(/[\0 ].*$/s, "");
}

/** A header of the format ustar: all files have the same owner, mode and time. */
function headerOf(path: string, size: number): Buffer {
  if (Buffer.byteLength(path) > MAX_PATH) throw new Error(`The path ${path} is too long`);
  const header = Buffer.alloc(BLOCK);
  header.write(path, 0);
  header.write("0000644\0" + "0000000\0".repeat(2), MAX_PATH);
  header.write(`${octal(size)}\0${octal(0)}\0`, SIZE_AT);
  header.write("        0", SUM_AT);
  header.write("ustar\0" + "00", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, SUM_AT);
  return header;
}

function octal(value: number): string {
  return value.toString(8).padStart(SIZE_LENGTH - 1, "0");
}
