/**
 * Splits the bytes of a server into frames. A frame is one reply or one event, behind its length.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/**
 * Maximum length, in bytes, of a frame. The longest reply is the list of a lock's queue, at 59 bytes
 * for each entry: this is a queue of 280,000 entries. The first four bytes of a server of another kind
 * are a greater length: "HTTP" is 1.2 GB, and any record of TLS more than 300 MB.
 */
export const MAX_FRAME_BYTES: number = 16 * 2 ** 20;

const LENGTH_BYTES = 4;

/** The bytes of a server do not follow the protocol. No request on that connection can be answered. */
export class ProtocolError extends Error {
  /** The name of the class. */
  override readonly name = "ProtocolError";
  /** Whether they are bytes of TLS. */
  readonly isTls: boolean;

  /** Creates an error. */
  constructor(message: string, isTls = false) {
    super(message);
    this.isTls = isTls;
  }
}

/** Splits the bytes of one connection. */
export class Frames {
  /** The bytes that belong to no complete frame yet, in the chunks in which they arrived. */
  #chunks: Buffer[] = [];
  #byteCount = 0;

  /** Whether a frame has arrived in part. */
  get isPartial(): boolean {
    return this.#byteCount > 0;
  }

  /** Adds a chunk of bytes. */
  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#byteCount += chunk.length;
  }

  /**
   * Removes the next frame.
   *
   * @returns The frame, with its length before it; `null` until it is complete.
   * @throws {ProtocolError} If its length is negative or too great.
   */
  next(): Buffer | null {
    const head = this.#first(LENGTH_BYTES);
    if (head === null) return null;
    const length = head.readInt32BE();
    if (length < 0 || length > MAX_FRAME_BYTES) {
      const message = `A reply has ${length} bytes instead of 0 to ${MAX_FRAME_BYTES}. ` +
        "Is it a ZooKeeper server?";
      throw new ProtocolError(message, isTlsRecord(head));
    }
    const end = LENGTH_BYTES + length;
    const bytes = this.#first(end);
    if (bytes === null) return null;
    if (bytes.length === end) this.#chunks.shift();
    else this.#chunks[0] = bytes.subarray(end);
    this.#byteCount -= end;
    return bytes.subarray(0, end);
  }

  /** Returns a chunk that begins with the next `count` bytes; `null` until they have arrived. */
  #first(count: number): Buffer | null {
    if (this.#byteCount < count) return null;
    // Joined only now, when the bytes are complete: a long frame is copied once.
    if (this.#chunks[0]!.length < count) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }
}

/** Whether these are the first bytes of an alert, or of a handshake, of any version of TLS. */
function isTlsRecord([type, version]: Buffer): boolean {
  return (type === 0x15 || type === 0x16) && version === 3;
}
