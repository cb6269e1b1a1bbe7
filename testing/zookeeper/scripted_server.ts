/**
 * A TCP server that speaks ZooKeeper's protocol and answers as its script says: in one chunk, byte by
 * byte, out of order, or with frames that no real server sends.
 *
 * @module
 */
import { abortable } from "../../core/time/clock.ts";
import type { Socket } from "../runtime/sockets.ts";
import { listenOnFreePort } from "../servers/ports.ts";
import { writeAll } from "../servers/raw_sockets.ts";
import { KEPT_SESSION_MS } from "../time.ts";
import { accepted, Frames, operationOf } from "./wire.ts";

/** One request of a client. */
export interface ScriptedRequest {
  /** Its number, which the reply must repeat. */
  readonly xid: number;
  /** `"delete"`, `"getChildren"`; see `wire.ts`. */
  readonly operation: string;
}

/** One connection of a client, after its session was accepted. */
export interface ScriptedConnection {
  /** Counts from 1. */
  readonly id: number;
  /** Waits for the next request; pings are left out. `null` when the client has closed. */
  next(): Promise<ScriptedRequest | null>;
  /** Writes bytes in one call. */
  send(...frames: readonly Uint8Array[]): Promise<void>;
}

/** Serves one connection until it returns; then the connection is closed. */
export type Script = (connection: ScriptedConnection) => Promise<void>;

/** A running server. */
export interface ScriptedServer extends AsyncDisposable {
  readonly port: number;
  /** How many connections were accepted so far. */
  readonly accepted: number;
  /** How many connections are open. */
  readonly open: number;
}

/** Starts a server on a free port of 127.0.0.1. */
export function startScriptedServer(
  script: Script,
  sessionTimeoutMs = KEPT_SESSION_MS,
): ScriptedServer {
  const listener = listenOnFreePort();
  const stop = new AbortController();
  const open = new Set<Promise<void>>();
  let count = 0;
  const accepting = (async () => {
    for await (const socket of listener) {
      socket.setNoDelay();
      const serving = serve(socket, ++count, script, sessionTimeoutMs, stop.signal)
        .finally(() => open.delete(serving));
      open.add(serving);
    }
  })();
  return {
    port: listener.addr.port,
    get accepted() {
      return count;
    },
    get open() {
      return open.size;
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error("The server stops"));
      listener.close();
      await accepting;
      await Promise.all(open);
    },
  };
}

async function serve(
  socket: Socket,
  id: number,
  script: Script,
  sessionTimeoutMs: number,
  stopped: AbortSignal,
): Promise<void> {
  using _closing = socket;
  const requests = readRequests(socket);
  const next = async (): Promise<ScriptedRequest | null> => {
    for (;;) {
      const { value } = await abortable(requests.next(), stopped).catch(() => ({ value: null }));
      if (value?.operation !== "ping") return value ?? null;
    }
  };
  const send = (...frames: readonly Uint8Array[]) =>
    writeAll(socket, joined(frames)).catch(() => {}); // The client has closed the connection.
  const first = await next();
  if (first?.operation !== "connect") return;
  await send(accepted(sessionTimeoutMs));
  await script({ id, next, send });
}

async function* readRequests(socket: Socket): AsyncGenerator<ScriptedRequest, null> {
  const frames = new Frames();
  const chunk = new Uint8Array(65_536);
  for (let count; (count = await socket.read(chunk).catch(() => null)) !== null;) {
    for (const frame of frames.read(chunk.slice(0, count))) {
      yield { xid: frame.getInt32(0), operation: operationOf(frame) };
    }
  }
  return null;
}

/** Makes the reply to a request that has no result, or that is refused with an error code. */
export function reply(xid: number, error = 0, body: Uint8Array = new Uint8Array()): Uint8Array {
  const header = new DataView(new ArrayBuffer(16));
  header.setInt32(0, xid);
  header.setInt32(12, error);
  return frame(joined([new Uint8Array(header.buffer), body]));
}

/** Makes the reply to `getChildren`. */
export function childrenReply(xid: number, names: readonly string[]): Uint8Array {
  const stat = new Uint8Array(68);
  return reply(xid, 0, joined([textsBody(names), stat]));
}

/** The bytes of a list of texts. */
export function textsBody(texts: readonly string[]): Uint8Array {
  const parts = texts.flatMap((text) => {
    const bytes = new TextEncoder().encode(text);
    return [int(bytes.length), bytes];
  });
  return joined([int(texts.length), ...parts]);
}

/** Puts the length before the bytes; another length makes a broken frame. */
export function frame(bytes: Uint8Array, length = bytes.length): Uint8Array {
  return joined([int(length), bytes]);
}

function int(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setInt32(0, value);
  return bytes;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
