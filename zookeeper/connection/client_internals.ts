/**
 * The private parts of node-zookeeper-client 1.1.3 that `client_guard.ts` uses, and how they are read.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import type { Fifo } from "./fifo.ts";
import { ProtocolError } from "./frames.ts";
import { ReplyReader } from "./reply_reader.ts";
import type { WireRequest } from "./wire_requests.ts";

/** A request that was not sent or not answered yet: one of ours, or one that the package has made. */
export interface Packet {
  readonly request: { readonly header: { readonly xid: number } } & Partial<WireRequest<unknown>>;
  callback(error: { code: number } | null, answer?: unknown): void;
}

/** A socket of `node:net` or `node:tls`. */
export interface Socket {
  readonly destroyed: boolean;
  destroy(): void;
  cork(): void;
  uncork(): void;
  setNoDelay(): void;
  on(event: "connect" | "secureConnect" | "drain" | "close", listener: () => void): void;
  on(event: "data", listener: (chunk: Buffer) => void): void;
  on(event: "error", listener: (error: unknown) => void): void;
}

/** The private parts that are used, as of 1.1.3. */
export interface ConnectionManager {
  socket?: Socket;
  readonly packetQueue: { readonly queue: Packet[] };
  /** The package calls `push()` and `shift()` only. */
  pendingQueue: Pick<Fifo<Packet>, "push" | "shift">;
  readonly state: number;
  /** The number of the next request. */
  xid: number;
  /** The last zxid that a server has answered with. It is sent to the next server. */
  readonly zxid: Buffer;
  connect(): void;
  queue(request: unknown, callback: Packet["callback"]): void;
  onSocketConnected(): void;
  onSocketData(bytes: Buffer): void;
  onSocketDrain(): void;
  onSocketClosed(): void;
  on(event: "state", listener: (state: number) => void): void;
  setState(state: number): void;
}

/** A state of the connection: not connected. */
export const DISCONNECTED = 0;
/** A state of the connection: the session is not accepted yet. */
export const CONNECTING = 1;
/** A state of the connection: the session is accepted. */
export const CONNECTED = 2;
/** A state of the connection: no new connection is made. */
export const CLOSING = -1;
/** The package's code for a request whose connection was lost before the answer. */
export const CONNECTION_LOSS = -4;
/** The number of a message that is no reply: the event of a watch. */
export const EVENT_XID = -1;
const MAX_XID = 2 ** 31 - 1;
/** Where a frame has the number of its request, behind its length. */
const XID_AT = 4;
/** Where a reply has the server's last zxid. */
const ZXID_AT = 8;
/** Where a reply has its code: 0, or why the request was refused. */
const CODE_AT = 16;
/** Minimum length of a reply, with its length before it. */
const REPLY_BYTES = 20;

/**
 * Checks that a reply belongs to the oldest unanswered request. The package would reconnect, but forget
 * that request.
 *
 * @returns The number of that request. Pings, events and the answer to credentials have negative numbers.
 */
export function checkOrder(frame: Buffer, packet: Packet | undefined): number {
  if (frame.length < REPLY_BYTES) {
    throw new ProtocolError(`A reply has only ${frame.length - XID_AT} bytes`);
  }
  const xid = frame.readInt32BE(XID_AT);
  const expected = packet?.request.header.xid;
  if (xid < 0 || xid === expected) return xid;
  throw new ProtocolError(`A reply is for request ${xid} instead of ${expected ?? "none"}`);
}

/** Answers a request of ours, as the package answers its own. */
export function answer(manager: ConnectionManager, frame: Buffer, packet: Packet): void {
  frame.copy(manager.zxid, 0, ZXID_AT, CODE_AT);
  const code = frame.readInt32BE(CODE_AT);
  if (code === 0) packet.callback(null, packet.request.read!(new ReplyReader(frame)));
  else packet.callback({ code });
}

/**
 * Restarts the numbers of requests at 1 before they exceed 32 bits. The package would count on, and
 * throw at each request from then on. Reusing numbers is safe: the server only returns them, in the order
 * of the requests, and the package compares each with the oldest pending request only. The package
 * starts at 0, but a server before 3.8 treats request 0 as pending forever, so we start at 1.
 */
export function wrapXids(manager: ConnectionManager): void {
  let next = 1;
  Object.defineProperty(manager, "xid", {
    get: () => next,
    set: (xid: number) => next = xid > MAX_XID ? 1 : xid,
  });
}

/** Returns the code that the package does not know; `null` for any other error. */
export function unknownCode(error: unknown): number | null {
  const digits = error instanceof Error && /^Unknown code: (-?\d+)$/.exec(error.message)?.[1];
  return digits ? Number(digits) : null;
}
