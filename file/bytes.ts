/**
 * Reads and writes bytes at an offset of an open file.
 *
 * @module
 */

/** Reads up to `length` bytes; fewer at the end of the file. */
export function readAt(file: Deno.FsFile, offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  file.seekSync(offset, Deno.SeekMode.Start);
  return bytes.subarray(0, file.readSync(bytes) ?? 0);
}

/**
 * Writes all bytes in one call.
 *
 * @throws {Error} If only a part could be written.
 */
export function writeAt(file: Deno.FsFile, offset: number, bytes: Uint8Array): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  const count = file.writeSync(bytes);
  if (count !== bytes.length) {
    throw new Error(`Wrote only ${count} of ${bytes.length} bytes: is the disk full?`);
  }
}
