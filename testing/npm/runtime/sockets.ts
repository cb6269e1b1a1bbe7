/**
 * The port to TCP on Node and Bun: takes the place of `testing/runtime/sockets.ts` in bundled tests.
 * They connect only: their servers are started outside.
 *
 * @module
 */
import { once } from "node:events";
import { connect, type Socket as NodeSocket } from "node:net";
import type { TcpAddress, TcpListener, TcpSocket } from "../../runtime/sockets.ts";

/** Connects. */
export async function connectTcp({ hostname, port }: TcpAddress): Promise<TcpSocket> {
  const socket = connect({ host: hostname, port });
  await once(socket, "connect");
  socket.on("error", () => {}); // each call reports its own error
  return adapt(socket);
}

/** Not available: tests with TLS are not bundled. */
export function connectTls(): Promise<never> {
  return Promise.reject(new Error("Bundled tests have no TLS"));
}

/** Takes no port, and returns what cannot accept: bundled tests start no servers. */
export function listenTcp({ hostname, port }: TcpAddress): TcpListener {
  return { addr: { hostname, port, transport: "tcp" } } as TcpListener;
}

/** Not available. */
export function listenTls(): never {
  throw new Error("Bundled tests have no listeners");
}

function adapt(socket: NodeSocket): TcpSocket {
  const chunks = socket.iterator({ destroyOnReturn: false })[Symbol.asyncIterator]();
  let rest: Uint8Array = new Uint8Array();
  return {
    async read(into) {
      if (rest.length === 0) {
        const { value, done } = await chunks.next();
        if (done) return null;
        rest = value as Uint8Array;
      }
      const count = Math.min(into.length, rest.length);
      into.set(rest.subarray(0, count));
      rest = rest.subarray(count);
      return count;
    },
    write(bytes) {
      return new Promise((resolve, reject) => {
        socket.write(bytes, (error) => error ? reject(error) : resolve(bytes.length));
      });
    },
    closeWrite: () => new Promise((resolve) => socket.end(() => resolve())),
    close: () => void socket.destroy(),
    setNoDelay: (isOn) => void socket.setNoDelay(isOn),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
