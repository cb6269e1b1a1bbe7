/**
 * Makes a server of this machine available at another address of it.
 *
 * @module
 */

import { connectTcp, listenTcp, type Socket } from "../runtime/sockets.ts";
import { writeAll } from "./raw_sockets.ts";

/** Forwards connections. */
export interface Forwarder extends AsyncDisposable {
  readonly port: number;
}

/**
 * Forwards connections to a port of 127.0.0.1. Disposal waits until all of them are closed.
 *
 * @param hostname The address to listen at.
 * @param port The port to listen at; 0 for any.
 * @param to The port of the server.
 */
export function forwardFrom(hostname: string, port: number, to: number): Forwarder {
  const listener = listenTcp({ hostname, port });
  const open = new Set<Promise<void>>();
  const accepting = (async () => {
    for await (const client of listener) {
      const one = serve(client, to).finally(() => open.delete(one));
      open.add(one);
    }
  })();
  return {
    port: listener.addr.port,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accepting;
      await Promise.all(open);
    },
  };
}

async function serve(client: Socket, to: number): Promise<void> {
  using server = await connectTcp({ hostname: "127.0.0.1", port: to });
  using _client = client;
  await Promise.allSettled([pump(client, server), pump(server, client)]);
}

async function pump(from: Socket, to: Socket): Promise<void> {
  const buffer = new Uint8Array(65_536);
  for (let count; (count = await from.read(buffer)) !== null;) {
    await writeAll(to, buffer.subarray(0, count));
  }
  await to.closeWrite();
}
