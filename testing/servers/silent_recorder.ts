/**
 * Servers that record the bytes of their clients and never answer.
 *
 * @module
 */
import { listenTls, type Socket } from "../runtime/sockets.ts";
import type { Certificate } from "./certificates.ts";
import { listenOnFreePort } from "./ports.ts";

/** A server that never answers. With TLS, only the handshake is answered. */
export interface Recorder extends AsyncDisposable {
  /** Host and port. */
  readonly address: string;
  /** The bytes so far; with TLS, decrypted and without the handshake. */
  readonly bytes: readonly number[];
  /** The number of open connections. */
  readonly open: number;
}

/** Starts a server without TLS. */
export function recordTcp(): Recorder {
  return record(listenOnFreePort());
}

/** Starts a server with TLS. */
export function recordTls({ cert, key }: Certificate): Recorder {
  return record(listenTls({ cert, key }));
}

/** Reads until the end of a connection, and closes it. */
export async function drain(
  connection: Socket,
  onBytes: (bytes: Uint8Array) => void = () => {},
): Promise<void> {
  const buffer = new Uint8Array(4_096);
  try {
    for (let count; (count = await connection.read(buffer)) !== null;) {
      onBytes(buffer.slice(0, count));
    }
  } catch {
    // The client has reset the connection, or the handshake has failed.
  }
  connection.close();
}

/** Listens on a port of 127.0.0.1. */
interface Listener extends AsyncIterable<Socket> {
  readonly addr: { readonly port: number };
  close(): void;
}

function record(listener: Listener): Recorder {
  const bytes: number[] = [];
  const serving = new Set<Promise<void>>();
  const accepting = (async () => {
    for await (const connection of listener) {
      const one = drain(connection, (chunk) => void bytes.push(...chunk))
        .finally(() => serving.delete(one));
      serving.add(one);
    }
  })();
  return {
    address: `127.0.0.1:${listener.addr.port}`,
    bytes,
    get open() {
      return serving.size;
    },
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
      await Promise.all(serving);
    },
  };
}
