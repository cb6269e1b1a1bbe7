/**
 * An echo server and a client, for the tests of the proxy.
 *
 * @module
 */

import { connectTcp, listenTcp, type TcpSocket } from "../runtime/sockets.ts";
import { closer, writeAll } from "./raw_sockets.ts";

/** Starts a server that echoes everything and keeps what it received. */
export function startEcho() {
  const listener = listenTcp({ hostname: "127.0.0.1", port: 0 });
  const echo = { port: listener.addr.port, received: "", ended: 0 };
  const running: Promise<void>[] = [];
  const ending = new AbortController();
  const serve = async (socket: TcpSocket) => {
    using _closing = closer(socket, ending.signal);
    const buffer = new Uint8Array(1_024);
    try {
      for (let count; (count = await socket.read(buffer)) !== null;) {
        echo.received += new TextDecoder().decode(buffer.subarray(0, count));
        await writeAll(socket, buffer.slice(0, count));
      }
    } catch {
      // The proxy reset the connection.
    }
    echo.ended++;
  };
  running.push((async () => {
    for await (const socket of listener) running.push(serve(socket));
  })());
  return Object.assign(echo, {
    hostname: "127.0.0.1",
    endAll: () => ending.abort(),
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const work of running) await work;
    },
  });
}

/** Connects a client that keeps what it receives. */
export async function connect({ hostname, port }: { hostname: string; port: number }) {
  const socket = await connectTcp({ hostname, port });
  const client = { received: "", hasEnded: false };
  const reading = (async () => {
    const buffer = new Uint8Array(1_024);
    try {
      for (let count; (count = await socket.read(buffer)) !== null;) {
        client.received += new TextDecoder().decode(buffer.subarray(0, count));
      }
    } catch {
      // The proxy reset the connection, or it was closed here.
    }
    client.hasEnded = true;
  })();
  return Object.assign(client, {
    send: (text: string) => writeAll(socket, new TextEncoder().encode(text)),
    async [Symbol.asyncDispose]() {
      socket.close();
      await reading;
    },
  });
}

/** The client of {@linkcode connect}. */
export type Client = Awaited<ReturnType<typeof connect>>;
