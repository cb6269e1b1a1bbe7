/**
 * Reads and writes bytes at an offset of an open file.
 *
 * @module
 */
import type { OpenFile } from "./system/port.ts";

/** Reads up to `length` bytes; fewer at the end of the file. */
export function readAt(file: OpenFile, offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, file.read(offset, bytes));
}

/**
 * Writes all bytes in one call.
 *
 * @throws {Error} If only a part could be written.
 */
export function writeAt(file: OpenFile, offset: number, bytes: Uint8Array): void {
  const count = file.write(offset, bytes);
  if (count !== bytes.length) {
    throw new Error(`Wrote only ${count} of ${bytes.length} bytes: is the disk full?`);
  }
}
