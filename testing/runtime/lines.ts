/**
 * Programs that talk in lines.
 *
 * @module
 */
import { Readable } from "node:stream";

/** Reads lines; null at the end. */
export interface Lines {
  next(): Promise<string | null>;
  cancel(): Promise<void>;
}

/** The lines of a stream of bytes, without their ends. What follows the last end is lost. */
export function linesOf(bytes: ReadableStream<Uint8Array<ArrayBuffer>> | Readable): Lines {
  const stream = bytes instanceof Readable
    ? Readable.toWeb(bytes) as ReadableStream<Uint8Array<ArrayBuffer>>
    : bytes;
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let lines: string[] = [];
  let rest = "";
  return {
    async next() {
      while (lines.length === 0) {
        const { value, done } = await reader.read();
        if (done) return null;
        lines = (rest + value).split("\n");
        rest = lines.pop()!;
      }
      return lines.shift()!;
    },
    cancel: () => reader.cancel(),
  };
}
