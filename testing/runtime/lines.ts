/**
 * Reads streams of bytes line by line.
 *
 * @module
 */
import { Readable } from "node:stream";

/** Reads one line after the other. */
export interface Lines {
  /** Resolves with null at the end of the stream. */
  next(): Promise<string | null>;
  /** Stops reading; a pending `next()` resolves with null. */
  cancel(): Promise<void>;
}

/** The lines of a stream, without line ends. A last line that has no end is dropped. */
export function linesOf(bytes: Readable | ReadableStream<Uint8Array>): Lines {
  const chunks = bytes instanceof Readable ? chunksOf(bytes) : chunksOfWeb(bytes);
  const decoder = new TextDecoder();
  let lines: string[] = [];
  let rest = "";
  return {
    async next() {
      while (lines.length === 0) {
        const chunk = await chunks.next();
        if (chunk === null) return null;
        lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop()!;
      }
      return lines.shift()!;
    },
    cancel: chunks.cancel,
  };
}

interface Chunks {
  next(): Promise<Uint8Array | null>;
  cancel(): Promise<void>;
}

const CHANGES = ["readable", "end", "close", "error"] as const;

/**
 * `Readable.toWeb()` is not an option: in Deno, a cancel before the end leaves an unhandled rejection.
 * Listens from the start: Node discards unread data of a process that has ended.
 */
function chunksOf(stream: Readable): Chunks {
  let wake = () => {};
  for (const event of CHANGES) stream.on(event, () => wake());
  return {
    async next() {
      for (;;) {
        const chunk: Uint8Array | null = stream.read();
        if (chunk !== null) return chunk;
        if (stream.readableEnded || stream.destroyed) return null;
        await new Promise<void>((resolve) => wake = resolve);
      }
    },
    cancel() {
      stream.destroy();
      return Promise.resolve();
    },
  };
}

function chunksOfWeb(stream: ReadableStream<Uint8Array>): Chunks {
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()).value ?? null,
    cancel: () => reader.cancel(),
  };
}
