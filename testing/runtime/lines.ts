/**
 * Programs that talk in lines.
 *
 * @module
 */
import { Readable } from "node:stream";

/** Reads lines; null at the end. */
export interface Lines {
  next(): Promise<string | null>;
  /** Reads no more: a call of `next()` that waits resolves with null. */
  cancel(): Promise<void>;
}

/** The lines of a stream of bytes, without their ends. What follows the last end is lost. */
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

/** Not by `Readable.toWeb()`: in Deno, a cancel before the end rejects a promise that nobody has. */
function chunksOf(stream: Readable): Chunks {
  return {
    async next() {
      for (;;) {
        const chunk: Uint8Array | null = stream.read();
        if (chunk !== null) return chunk;
        if (stream.readableEnded || stream.destroyed) return null;
        await change(stream);
      }
    },
    cancel() {
      stream.destroy();
      return Promise.resolve();
    },
  };
}

const CHANGES = ["readable", "end", "close", "error"] as const;

/** Resolves when there is something to read, or will be no more. */
function change(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const event of CHANGES) stream.off(event, done);
      resolve();
    };
    for (const event of CHANGES) stream.on(event, done);
  });
}

function chunksOfWeb(stream: ReadableStream<Uint8Array>): Chunks {
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()).value ?? null,
    cancel: () => reader.cancel(),
  };
}
