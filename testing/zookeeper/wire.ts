/**
 * The parts of ZooKeeper's protocol that tests need to read the requests of a connection, to end a
 * session and to refuse requests.
 *
 * @module
 */
import type { ChunkHook } from "../servers/proxy.ts";
import { writeAll } from "../servers/raw_sockets.ts";

const OPERATIONS: Readonly<Record<number, string>> = {
  1: "create",
  2: "delete",
  3: "exists",
  4: "getData",
  5: "setData",
  11: "ping",
  12: "getChildren",
  100: "auth",
  101: "setWatches",
  [-11]: "closeSession",
};

/** The key with which a client resumes its session on another connection. */
export interface SessionKey {
  readonly id: bigint;
  readonly password: Uint8Array;
}

/** Cuts a stream into frames; a frame begins with its length. */
export class Frames {
  #rest = new Uint8Array();

  /** Returns the frames that are complete with this chunk, without their lengths. */
  read(chunk: Uint8Array): DataView[] {
    const bytes = join(this.#rest, chunk);
    const frames: DataView[] = [];
    let at = 0;
    while (bytes.length - at >= 4) {
      const end = at + 4 + view(bytes).getInt32(at);
      if (bytes.length < end) break;
      frames.push(view(bytes.slice(at + 4, end)));
      at = end;
    }
    this.#rest = bytes.slice(at);
    return frames;
  }
}

/**
 * Makes a hook for a proxy's `onRequest` that reports the operation of each request, and its number.
 */
export function operations(
  tell: (operation: string, connection: number, xid: number) => void,
): ChunkHook {
  const streams = new Map<number, Frames>();
  return (chunk, { id }) => {
    const frames = streams.get(id) ?? new Frames();
    streams.set(id, frames);
    for (const frame of frames.read(chunk)) tell(operationOf(frame), id, frame.getInt32(0));
    return "pass";
  };
}

/** Returns the name of a request's operation. */
export function operationOf(frame: DataView): string {
  // The first request of a connection has no header: version 0, then a password of 16 bytes.
  const isConnect = frame.byteLength >= 44 && frame.getInt32(0) === 0 && frame.getInt32(24) === 16;
  return isConnect ? "connect" : OPERATIONS[frame.getInt32(4)] ?? "another";
}

/** Makes a hook for a proxy's `onReply` that reports the session of each connection. */
export function sessionKeys(tell: (key: SessionKey) => void): ChunkHook {
  const seen = new Set<number>();
  return (chunk, { id }) => {
    if (!seen.has(id)) {
      seen.add(id);
      const [frame] = new Frames().read(chunk);
      if (frame === undefined) return "pass"; // the answer to the question who the server is
      const password = new Uint8Array(frame.buffer).slice(20, 36);
      tell({ id: frame.getBigInt64(8), password });
    }
    return "pass";
  };
}

/**
 * Closes a session at the server on a new connection, as its own client would. The client must not be
 * connected to that server.
 */
export async function endSession(port: number, { id, password }: SessionKey): Promise<void> {
  using socket = await Deno.connect({ hostname: "127.0.0.1", port });
  const request = view(new Uint8Array(4 + 28 + 16 + 4 + 8));
  request.setInt32(0, 28 + 16);
  request.setInt32(16, 10_000); // The timeout; protocol version and last zxid stay 0.
  request.setBigInt64(20, id);
  request.setInt32(28, 16);
  new Uint8Array(request.buffer).set(password, 32);
  request.setInt32(48, 8);
  request.setInt32(52, 1);
  request.setInt32(56, -11);
  await writeAll(socket, new Uint8Array(request.buffer));
  // The server closes the connection when it has closed the session.
  while (await socket.read(new Uint8Array(1024)) !== null);
}

/** Serves a connection: accepts its session, and refuses every request with one error code. */
export async function refuseAll(connection: Deno.Conn, code: number): Promise<void> {
  const frames = new Frames();
  const chunk = new Uint8Array(65_536);
  let isConnected = false;
  for (let count; (count = await connection.read(chunk).catch(() => null)) !== null;) {
    for (const frame of frames.read(chunk.slice(0, count))) {
      const reply = isConnected ? refusalOf(frame, code) : accepted();
      isConnected = true;
      await writeAll(connection, reply).catch(() => {});
    }
  }
}

/** Makes the reply that accepts a session. */
export function accepted(sessionTimeoutMs = 4_000): Uint8Array {
  const reply = view(new Uint8Array(4 + 36));
  reply.setInt32(0, 36);
  reply.setInt32(8, sessionTimeoutMs);
  reply.setBigInt64(12, 77n);
  reply.setInt32(20, 16);
  return new Uint8Array(reply.buffer);
}

function refusalOf(request: DataView, code: number): Uint8Array {
  const reply = view(new Uint8Array(4 + 16));
  reply.setInt32(0, 16);
  reply.setInt32(4, request.getInt32(0));
  reply.setInt32(16, code);
  return new Uint8Array(reply.buffer);
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
