/**
 * The bytes that a client and a server exchange: frames, the requests that locks need, and their replies.
 * The package can make and read them, too, but that takes it longer than all else it does for a request.
 *
 * @module
 * @see {@link https://github.com/apache/zookeeper/blob/master/zookeeper-jute/src/main/resources/zookeeper.jute}
 */
import { Buffer } from "node:buffer";

/**
 * Maximum length, in bytes, of a frame. The longest reply is the list of a lock's queue, at 59 bytes
 * for each entry: this is a queue of 280,000 entries. The first four bytes of a server of another kind
 * are a greater length: "HTTP" is 1.2 GB, and any record of TLS more than 300 MB.
 */
const MAX_FRAME_BYTES = 16 * 2 ** 20;

/** How many bytes an error keeps of what is no frame. */
const MAX_SHOWN_BYTES = 256;
/** A frame begins with its length, which does not count these bytes. */
const LENGTH_BYTES = 4;
export const XID_AT = LENGTH_BYTES;
/** Where a reply has the last zxid of the server. */
export const ZXID_AT = 8;
/** Where a reply has its code: 0, or why the request was refused. */
export const CODE_AT = 16;
/** Where a reply has its first field. */
const BODY_AT = 20;
const NOTHING = Buffer.alloc(0);

/** The bytes of a server do not follow the protocol. No request on that connection can be answered. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  /** The first bytes, if they begin no frame: those of another kind of server. */
  readonly bytes: Uint8Array | undefined;

  constructor(message: string, bytes?: Uint8Array) {
    super(message);
    this.bytes = bytes;
  }
}

/**
 * What arrives on one connection: frames, each a reply or an event. One frame is read at a time, from its
 * first field on. To read behind its end throws a {@linkcode ProtocolError}.
 */
export class Replies {
  /** The frame that is read now, with its length before it. */
  frame: Buffer = NOTHING;
  /**
   * The number of the reply's request. Pings, events and the answer to credentials have negative numbers; the
   * answer to the request for the session has none.
   */
  xid = 0;
  /** 0, or why the server has refused the request. */
  code = 0;
  /** The bytes behind that frame, in the chunks in which they arrived. */
  #chunks: Buffer[] = [];
  #byteCount = 0;
  #at = BODY_AT;

  get isPartial(): boolean {
    return this.#byteCount > 0;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#byteCount += chunk.length;
  }

  /** Goes on to the next frame; returns whether it is complete. Throws a `ProtocolError` at a bad length. */
  next(): boolean {
    this.frame = NOTHING; // its chunk need not stay in memory
    if (this.#byteCount < LENGTH_BYTES) return false;
    if (this.#chunks[0]!.length < LENGTH_BYTES) this.#join();
    const head = this.#chunks[0]!;
    const length = head.readInt32BE();
    if (length < 0 || length > MAX_FRAME_BYTES) {
      const message = `A reply has ${length} bytes instead of 0 to ${MAX_FRAME_BYTES}. ` +
        "Is it a ZooKeeper server?";
      throw new ProtocolError(message, Uint8Array.from(head.subarray(0, MAX_SHOWN_BYTES)));
    }
    const end = LENGTH_BYTES + length;
    if (this.#byteCount < end) return false;
    if (head.length < end) this.#join(); // only now: a long frame is copied once
    const bytes = this.#chunks[0]!;
    if (bytes.length === end) this.#chunks.shift();
    else this.#chunks[0] = bytes.subarray(end);
    this.#byteCount -= end;
    const frame = this.frame = bytes.subarray(0, end);
    if (end < BODY_AT) throw new ProtocolError(`A reply has only ${length} bytes`);
    this.xid = frame.readInt32BE(XID_AT);
    this.code = frame.readInt32BE(CODE_AT);
    this.#at = BODY_AT;
    return true;
  }

  #join(): void {
    this.#chunks = [Buffer.concat(this.#chunks)];
  }

  int(): number {
    return this.frame.readInt32BE(this.#skip(4));
  }

  text(): string {
    const at = this.#skipSized();
    return this.frame.toString("utf8", at, this.#at);
  }

  /** Returns a copy: the frame is a part of a chunk that would stay in memory. */
  bytes(): Buffer {
    const at = this.#skipSized();
    return Buffer.from(this.frame.subarray(at, this.#at));
  }

  texts(): string[] {
    const count = this.int(); // -1 if the list is missing
    const all: string[] = [];
    for (let i = 0; i < count; i++) all.push(this.text());
    return all;
  }

  stat(): Omit<Znode, "data"> & { readonly pzxid: bigint } {
    // czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length of data, children, pzxid
    const at = this.#skip(68);
    const { frame } = this;
    const childCount = frame.readInt32BE(at + 56);
    return {
      czxid: frame.readBigInt64BE(at),
      createdAtMs: Number(frame.readBigInt64BE(at + 16)),
      childCount,
      // The server sends the number of creates and deletes together, which overflows first.
      createCount: ((frame.readInt32BE(at + 36) + childCount) >>> 0) / 2,
      pzxid: frame.readBigInt64BE(at + 60),
    };
  }

  /** Returns where the next `count` bytes begin, and goes on behind them. */
  #skip(count: number): number {
    const at = this.#at;
    this.#at += count;
    if (this.#at > this.frame.length) {
      throw new ProtocolError("A reply is shorter than its fields");
    }
    return at;
  }

  /** The same for a field that begins with its length: -1 if it is missing. */
  #skipSized(): number {
    return this.#skip(Math.max(0, this.frame.readInt32BE(this.#skip(4))));
  }
}

/** The children of a znode. */
export interface Children {
  readonly names: readonly string[];
  /** The zxid of the last create or delete of a child. */
  readonly pzxid: bigint;
}

/** What a read of a znode shows. */
export interface Znode {
  readonly data: Uint8Array;
  /** The zxid of the write that created it. Each write to the ensemble has a greater zxid. */
  readonly czxid: bigint;
  /** When it was created, by the servers' clock, in ms since the epoch. */
  readonly createdAtMs: number;
  /** How many children it has. */
  readonly childCount: number;
  /** How many children it has ever had: the next sequence number. */
  readonly createCount: number;
}

/** The event of a watched znode. `"changed"` is also reported when connection and watch are lost. */
export type WatchEvent = "changed" | "deleted";

/** A request in bytes. */
export interface Request<T> {
  /** With its length before them, and without its number. */
  readonly bytes: Buffer;
  /** Reads the answer. Throws a {@linkcode ProtocolError} if that is too short. */
  read(reply: Replies): T;
}

const CREATE = 1;
const DELETE = 2;
const GET_DATA = 4;
const SET_DATA = 5;
const GET_CHILDREN = 12;
/** Type of an event: the watched znode was deleted. */
const NODE_DELETED = 2;
/** Where a request has its path, behind its own length, number and type, and the length of the path. */
const PATH_AT = 16;
/** The modes of a create. The last one is ephemeral, too: the server appends a sequence number. */
const MODES = { persistent: ints(0), ephemeral: ints(1), sequential: ints(3) };
const OPEN_ACL = accessFor("world", "anyone");
const CREATOR_ACL = accessFor("auth", "");
const ANY_VERSION = ints(-1);
const EMPTY_ANY_VERSION = ints(0, -1);
const UNWATCHED = Buffer.from([0]);
const WATCHED = Buffer.from([1]);

/** Creates a znode; answered with its path. Unless `isOpen`, access needs the creator's credentials. */
export function createRequest(
  path: string,
  data: Uint8Array | null,
  mode: keyof typeof MODES,
  isOpen: boolean,
): Request<string> {
  const rest = Buffer.concat([sized(data), isOpen ? OPEN_ACL : CREATOR_ACL, MODES[mode]]);
  return request(CREATE, path, rest, (reply) => reply.text());
}

export function deleteRequest(path: string): Request<void> {
  return request(DELETE, path, ANY_VERSION, readNothing);
}

/** Writes empty data. */
export function setRequest(path: string): Request<void> {
  return request(SET_DATA, path, EMPTY_ANY_VERSION, readNothing);
}

/** Reads a znode. With `onSet`, also watches it, if it exists: then calls `onSet` before an event can arrive. */
export function getRequest(path: string, onSet?: (znode: Znode) => void): Request<Znode> {
  return request(GET_DATA, path, onSet === undefined ? UNWATCHED : WATCHED, (reply) => {
    const data = reply.bytes();
    const { czxid, createdAtMs, childCount, createCount } = reply.stat();
    const znode = { data, czxid, createdAtMs, childCount, createCount };
    onSet?.(znode);
    return znode;
  });
}

export function childrenRequest(path: string): Request<Children> {
  return request(GET_CHILDREN, path, UNWATCHED, (reply) => {
    const names = reply.texts();
    return { names, pzxid: reply.stat().pzxid };
  });
}

/** Reads which watch has fired, and why. */
export function readEvent(reply: Replies): { path: string; event: WatchEvent } {
  const type = reply.int();
  reply.int(); // the state of the connection
  return { path: reply.text(), event: type === NODE_DELETED ? "deleted" : "changed" };
}

/** Every request of these begins with a path. */
function request<T>(
  type: number,
  path: string,
  rest: Buffer,
  read: (reply: Replies) => T,
): Request<T> {
  const pathLength = Buffer.byteLength(path);
  const bytes = Buffer.allocUnsafe(PATH_AT + pathLength + rest.length);
  bytes.writeInt32BE(bytes.length - 4, 0);
  bytes.writeInt32BE(type, 8);
  bytes.writeInt32BE(pathLength, 12);
  bytes.write(path, PATH_AT);
  bytes.set(rest, PATH_AT + pathLength);
  return { bytes, read };
}

function readNothing(): void {}

/** An access control list with all rights for one identity. */
function accessFor(scheme: string, id: string): Buffer {
  const allRights = 31;
  return Buffer.concat([ints(1, allRights), sized(Buffer.from(scheme)), sized(Buffer.from(id))]);
}

/** Bytes behind their length; none at all have the length -1. */
function sized(bytes: Uint8Array | null): Buffer {
  return bytes === null ? ints(-1) : Buffer.concat([ints(bytes.length), bytes]);
}

function ints(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeInt32BE(value, 4 * i);
  return bytes;
}
