/**
 * Reads the fields of one reply or event. Which fields there are is in `wire_requests.ts`.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { ProtocolError } from "./frames.ts";
import type { Znode } from "./transport.ts";

/** Where a frame has its first field, behind its length, the number of the request, a zxid and a code. */
const BODY_AT = 20;

/** Reads one frame from its first field on. Throws a {@linkcode ProtocolError} behind its end. */
export class ReplyReader {
  readonly #frame: Buffer;
  #at = BODY_AT;

  /** Takes a frame, with its length before it. */
  constructor(frame: Buffer) {
    this.#frame = frame;
  }

  int(): number {
    return this.#frame.readInt32BE(this.#skip(4));
  }

  long(): bigint {
    return this.#frame.readBigInt64BE(this.#skip(8));
  }

  text(): string {
    const length = this.#length();
    const at = this.#skip(length);
    return this.#frame.toString("utf8", at, at + length);
  }

  /** Returns a copy: the frame is a part of a chunk that would stay in memory. */
  bytes(): Buffer {
    const length = this.#length();
    const at = this.#skip(length);
    return Buffer.from(this.#frame.subarray(at, at + length));
  }

  texts(): string[] {
    const count = this.#length();
    const all: string[] = [];
    for (let i = 0; i < count; i++) all.push(this.text());
    return all;
  }

  /** Reads the metadata of a znode. */
  stat(): Omit<Znode, "data"> & { readonly pzxid: bigint } {
    const czxid = this.long();
    this.#skip(8); // mzxid
    const createdAtMs = Number(this.long());
    this.#skip(8 + 4); // mtime, version
    const cversion = this.int();
    this.#skip(4 + 8 + 4); // aversion, ephemeralOwner, dataLength
    const childCount = this.int();
    const pzxid = this.long();
    // The server sends the number of creates and deletes together.
    return { czxid, createdAtMs, childCount, createCount: (cversion + childCount) / 2, pzxid };
  }

  /** The length of a text, or of a list; one that is missing has -1. */
  #length(): number {
    return Math.max(0, this.int());
  }

  /** Returns where the next `count` bytes begin, and goes on behind them. */
  #skip(count: number): number {
    const at = this.#at;
    this.#at += count;
    if (this.#at > this.#frame.length) {
      throw new ProtocolError("A reply is shorter than its fields");
    }
    return at;
  }
}
