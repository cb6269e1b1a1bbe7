/**
 * The port to TCP. Deno's own sockets, not `node:net`: the test runner reports those that a test
 * leaves open, and it does not see the sockets of `node:net`.
 *
 * @module
 */

/** A connection, as far as tests use it. */
export type Socket = Pick<Deno.Conn, "read" | "write" | "closeWrite" | "close"> & Disposable;

/** A connection by TCP alone. */
export type TcpSocket = Socket & Pick<Deno.TcpConn, "setNoDelay">;

/** Accepts connections, by asynchronous iteration. */
export type TcpListener = Deno.TcpListener;

/** A host and a port. */
export interface TcpAddress {
  readonly hostname: string;
  readonly port: number;
}

/** Connects; a signal that aborts ends the attempt. */
export function connectTcp(address: TcpAddress, signal?: AbortSignal): Promise<TcpSocket> {
  const { hostname, port } = address;
  return Deno.connect({ hostname, port, ...signal && { signal } });
}

/** Connects by TLS. */
export function connectTls({ hostname, port }: TcpAddress): Promise<Socket> {
  return Deno.connectTls({ hostname, port });
}

/** Listens; throws an error with the code `EADDRINUSE` if the port is in use. */
export function listenTcp({ hostname, port }: TcpAddress): TcpListener {
  return Deno.listen({ hostname, port });
}
