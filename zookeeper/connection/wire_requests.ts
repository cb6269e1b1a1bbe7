/**
 * The bytes of the requests that locks need, and what their replies say. The package can make and read
 * them, too, but that takes it longer than all else that the client does for a request. Nothing is sent
 * here.
 *
 * @module
 * @see {@link https://github.com/apache/zookeeper/blob/master/zookeeper-jute/src/main/resources/zookeeper.jute}
 */
import { Buffer } from "node:buffer";
import type { ReplyReader } from "./reply_reader.ts";
import type { Children, WatchEvent, Znode } from "./transport.ts";

/** A request, as the package sends it. */
export interface WireRequest<T> {
  /** The package sets the number directly before it asks for the bytes. */
  readonly header: { xid: number; readonly type: number };
  /** Makes the bytes, with their length before them. */
  toBuffer(): Buffer;
  /** Reads the answer. Throws a `ProtocolError` if that is too short. */
  read(reply: ReplyReader): T;
}

/** Mode of create: the znode stays until it is deleted. */
export const PERSISTENT = 0;
/** Mode of create: the znode is deleted with its session. */
export const EPHEMERAL = 1;
/** Mode of create: ephemeral, and the server appends a sequence number. */
export const EPHEMERAL_SEQUENTIAL = 3;

/** Everybody has access. */
export const OPEN_ACL: Buffer = accessFor("world", "anyone");
/** Those with the credentials of the creator have access. */
export const CREATOR_ACL: Buffer = accessFor("auth", "");

const CREATE = 1;
const DELETE = 2;
const GET_DATA = 4;
const SET_DATA = 5;
const GET_CHILDREN = 12;
/** Type of an event: the watched znode was deleted. */
const NODE_DELETED = 2;
/** Length of a frame, number of the request, type, length of the path. */
const PATH_AT = 16;
const NO_BYTES = Buffer.alloc(0);
const ANY_VERSION = ints(-1);
const EMPTY_ANY_VERSION = Buffer.concat([sized(NO_BYTES), ANY_VERSION]);
const UNWATCHED = Buffer.from([0]);
const WATCHED = Buffer.from([1]);

/** Every request of these begins with a path. */
class PathRequest<T> implements WireRequest<T> {
  readonly header: { xid: number; readonly type: number };
  readonly read: (reply: ReplyReader) => T;
  readonly #path: string;
  /** The fields behind the path. */
  readonly #rest: Buffer;

  constructor(type: number, path: string, rest: Buffer, read: (reply: ReplyReader) => T) {
    this.header = { xid: 0, type };
    this.read = read;
    this.#path = path;
    this.#rest = rest;
  }

  toBuffer(): Buffer {
    const pathLength = Buffer.byteLength(this.#path);
    const bytes = Buffer.allocUnsafe(PATH_AT + pathLength + this.#rest.length);
    bytes.writeInt32BE(bytes.length - 4, 0);
    bytes.writeInt32BE(this.header.xid, 4);
    bytes.writeInt32BE(this.header.type, 8);
    bytes.writeInt32BE(pathLength, 12);
    bytes.write(this.#path, PATH_AT);
    bytes.set(this.#rest, PATH_AT + pathLength);
    return bytes;
  }
}

/** Creates a znode; answered with its path. */
export function createRequest(
  path: string,
  data: Uint8Array | null,
  acl: Buffer,
  mode: number,
): WireRequest<string> {
  const rest = Buffer.concat([sized(data), acl, ints(mode)]);
  return new PathRequest(CREATE, path, rest, (reply) => reply.text());
}

/** Deletes a znode, whatever its version is. */
export function deleteRequest(path: string): WireRequest<void> {
  return new PathRequest(DELETE, path, ANY_VERSION, readNothing);
}

/** Writes empty data, whatever the version is. */
export function setRequest(path: string): WireRequest<void> {
  return new PathRequest(SET_DATA, path, EMPTY_ANY_VERSION, readNothing);
}

/** Reads a znode. */
export function getRequest(path: string): WireRequest<Znode> {
  return new PathRequest(GET_DATA, path, UNWATCHED, readZnode);
}

/**
 * Reads a znode and, if it exists, watches it.
 *
 * @param path The path of the znode.
 * @param onSet Called when the watch is set, before its event can arrive.
 */
export function watchRequest(path: string, onSet: (znode: Znode) => void): WireRequest<Znode> {
  return new PathRequest(GET_DATA, path, WATCHED, (reply) => {
    const znode = readZnode(reply);
    onSet(znode);
    return znode;
  });
}

/** Lists the children of a znode. */
export function childrenRequest(path: string): WireRequest<Children> {
  return new PathRequest(GET_CHILDREN, path, UNWATCHED, readChildren);
}

/** Reads which watch has fired, and why. */
export function readEvent(event: ReplyReader): { path: string; event: WatchEvent } {
  const type = event.int();
  event.int(); // the state of the connection
  return { path: event.text(), event: type === NODE_DELETED ? "deleted" : "changed" };
}

function readNothing(): void {}

function readZnode(reply: ReplyReader): Znode {
  const data = reply.bytes();
  const { czxid, createdAtMs, childCount, createCount } = reply.stat();
  return { data, czxid, createdAtMs, childCount, createCount };
}

function readChildren(reply: ReplyReader): Children {
  const names = reply.texts();
  return { names, pzxid: reply.stat().pzxid };
}

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
