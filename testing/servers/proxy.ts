/**
 * A TCP proxy that fails in the ways networks fail: lost bytes, delays, a trickle, cut and refused
 * connections.
 *
 * @module
 */

import { abortable } from "../../core/time/clock.ts";
import type { Socket, TcpListener, TcpSocket } from "../runtime/sockets.ts";
import { listenAgain, listenOnFreePort, refused } from "./ports.ts";
import { closer, connectLocally, writeAll } from "./raw_sockets.ts";
import { pause } from "./wait.ts";

/** Which way bytes travel. */
export type Direction = "to-server" | "to-client";

/** The decision about a chunk of bytes. */
export type Verdict =
  | "pass"
  | "drop"
  | "cut"
  | { readonly delayMs: number }
  | { readonly byteEveryMs: number }
  | { readonly until: Promise<unknown> }
  | { readonly cutAfterBytes: number };

/** One connection through the proxy, as the hooks see it. */
export interface ProxyConnection {
  /** Counts from 1. */
  readonly id: number;
  /** Closes both ends now. */
  cut(): void;
}

/**
 * Decides about a chunk before it is forwarded. `"drop"` swallows it and everything after it in this
 * direction of the connection. `"cut"` closes the connection without delivering the chunk,
 * `cutAfterBytes` after delivering its beginning. `byteEveryMs` delivers it byte by byte. This, `delayMs`
 * and `until` also hold up later chunks. If a hook throws, the connection closes, and the disposal of the
 * proxy rejects with the error.
 */
export type ChunkHook = (chunk: Uint8Array, connection: ProxyConnection) => Verdict;

/** A proxy whose faults can be switched on and off while connections are open. */
export interface FaultProxy extends AsyncDisposable {
  readonly hostname: string;
  readonly port: number;
  /** How many connections are open. */
  readonly connections: number;
  onRequest: ChunkHook | undefined;
  onReply: ChunkHook | undefined;
  /** Swallows bytes and ends of streams. Connections stay open, and new ones are accepted. */
  blackHole(direction: "both" | Direction): void;
  /** Ends the black hole: closes the connections that were affected; new ones work. */
  heal(): void;
  /** Closes all connections now; new ones work. */
  cutAll(): void;
  /** While on, the port is closed: new connections are refused, open ones stay open. */
  refuse(on: boolean): Promise<void>;
}

/** Where the proxy forwards to. */
export interface ProxyTarget {
  readonly hostname: string;
  readonly port: number;
  /** How long in ms to retry while the target does not listen; 0 by default. */
  readonly connectForMs?: number;
}

type Hooks = Pick<FaultProxy, "onRequest" | "onReply">;

/** The state that all connections share. */
interface ProxyState {
  readonly target: ProxyTarget;
  hooks: Hooks;
  readonly hole: Set<Direction>;
  readonly open: Set<ProxyConnection>;
  /** The connections that are still being served. */
  readonly running: Set<Promise<void>>;
  /** Errors thrown by hooks. */
  readonly hookErrors: unknown[];
}

/** Starts a proxy on a free port of 127.0.0.1. */
export function startProxy(target: ProxyTarget): FaultProxy {
  const state = newState(target);
  const { hostname, port, refuse } = openGate(state);
  const cutAll = () => state.open.forEach((connection) => connection.cut());
  const proxy: FaultProxy = {
    ...state.hooks,
    hostname,
    port,
    get connections() {
      return state.open.size;
    },
    blackHole(direction) {
      if (direction !== "to-client") state.hole.add("to-server");
      if (direction !== "to-server") state.hole.add("to-client");
    },
    heal() {
      // Every open connection has lost bytes, or may have.
      if (state.hole.size > 0) cutAll();
      state.hole.clear();
    },
    cutAll,
    refuse,
    async [Symbol.asyncDispose]() {
      await refuse(true);
      cutAll();
      await Promise.all(state.running);
      if (state.hookErrors.length > 0) throw state.hookErrors[0];
    },
  };
  // Tests set the hooks on the proxy object, so they are read from there.
  state.hooks = proxy;
  return proxy;
}

function newState(target: ProxyTarget): ProxyState {
  return {
    target,
    hooks: { onRequest: undefined, onReply: undefined },
    hole: new Set(),
    open: new Set(),
    running: new Set(),
    hookErrors: [],
  };
}

/** Accepts connections on a free port, until told to refuse them. */
function openGate(state: ProxyState): Pick<FaultProxy, "hostname" | "port" | "refuse"> {
  let lastId = 0;
  const accept = async (listener: TcpListener) => {
    for await (const client of listener) {
      const serving = serve(state, client, ++lastId)
        .catch((error) => void state.hookErrors.push(error))
        .finally(() => state.running.delete(serving));
      state.running.add(serving);
    }
  };
  let listener: TcpListener | undefined = listenOnFreePort();
  let accepting = accept(listener);
  const { hostname, port } = listener.addr;
  return {
    hostname,
    port,
    async refuse(on) {
      if (on) {
        listener?.close();
        listener = undefined;
        // Until then, the system still accepts connections.
        await accepting;
        await refused(port);
      } else if (listener === undefined) {
        listener = await listenAgain(port);
        accepting = accept(listener);
      }
    },
  };
}

async function serve(state: ProxyState, client: TcpSocket, id: number): Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  using _closing = closer(client, signal);
  const connection: ProxyConnection = {
    id,
    cut() {
      state.open.delete(connection);
      controller.abort();
    },
  };
  state.open.add(connection);
  try {
    // A black hole in both directions needs no connection to the server.
    if (state.hole.size === 2) return await swallow(client);
    const server = await reach(state.target, signal);
    if (server === undefined) return;
    using _closingToo = closer(server, signal);
    if (signal.aborted) return;
    client.setNoDelay();
    server.setNoDelay();
    const common = { state, connection, signal };
    await Promise.all([
      pump({ ...common, from: client, to: server, way: "to-server", back: "to-client" }),
      pump({ ...common, from: server, to: client, way: "to-client", back: "to-server" }),
    ]);
  } finally {
    connection.cut();
  }
}

async function reach(
  { connectForMs = 0, ...address }: ProxyTarget,
  signal: AbortSignal,
): Promise<TcpSocket | undefined> {
  const endMs = performance.now() + connectForMs;
  for (;;) {
    const server = await connectLocally(address, signal).catch(() => undefined);
    if (server !== undefined || signal.aborted || performance.now() >= endMs) return server;
    await pause(5, signal);
  }
}

interface PumpOptions {
  readonly state: ProxyState;
  readonly connection: ProxyConnection;
  readonly signal: AbortSignal;
  readonly from: TcpSocket;
  readonly to: TcpSocket;
  readonly way: Direction;
  readonly back: Direction;
}

/** Forwards bytes one way. A black hole also hides that the other end has closed. */
async function pump(options: PumpOptions): Promise<void> {
  const { state: { hole }, connection, from, to, way, back } = options;
  for (;;) {
    const chunk = await readChunk(from);
    if (hole.has(way)) {
      if (!chunk) return;
    } else if (!chunk) {
      if (chunk === undefined || !await isDone(to.closeWrite())) connection.cut();
      return;
    } else {
      const rest = await judged(chunk, options);
      if (rest === null) return await swallow(from);
      if (!hole.has(way) && !await isDone(writeAll(to, rest))) {
        if (!hole.has(back)) connection.cut();
        return await swallow(from);
      }
    }
  }
}

/** Null at the end of the stream, undefined if it was reset. */
async function readChunk(from: Socket): Promise<Uint8Array | null | undefined> {
  const buffer = new Uint8Array(65_536);
  try {
    const count = await from.read(buffer);
    return count === null ? null : buffer.subarray(0, count);
  } catch {
    return undefined;
  }
}

async function swallow(from: Socket): Promise<void> {
  while (await readChunk(from));
}

function isDone(work: Promise<void>): Promise<boolean> {
  return work.then(() => true, () => false);
}

/** Asks the hook. Returns what is left to deliver; null if all that follows is to be swallowed. */
// Paces a workload: a hook may have a chunk delayed.
async function judged(chunk: Uint8Array, options: PumpOptions): Promise<Uint8Array | null> {
  const { state, connection, signal, way, to } = options;
  const { onRequest, onReply } = state.hooks;
  const hook = way === "to-server" ? onRequest : onReply;
  const verdict = hook?.(chunk, connection) ?? "pass";
  if (verdict === "cut") connection.cut();
  if (typeof verdict === "string") return verdict === "pass" ? chunk : null;
  if ("delayMs" in verdict) await pause(verdict.delayMs, signal);
  else if ("until" in verdict) {
    await abortable(verdict.until, signal).catch(() => {}); // the connection was cut
  } else if ("byteEveryMs" in verdict) {
    for (let at = 0; at < chunk.length && !state.hole.has(way); at++) {
      await pause(verdict.byteEveryMs, signal);
      if (signal.aborted || !await isDone(writeAll(to, chunk.subarray(at, at + 1)))) return null;
    }
    return new Uint8Array();
  } else {
    // Closing at once could discard bytes that the client has not read yet.
    const beginning = chunk.subarray(0, verdict.cutAfterBytes);
    await isDone(writeAll(to, beginning).then(() => to.closeWrite()));
    return null;
  }
  return signal.aborted ? null : chunk;
}
