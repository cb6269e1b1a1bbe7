/**
 * The port to TCP. It uses Deno's own sockets: the test runner reports those that a test leaves open,
 * but does not see sockets of `node:net`.
 *
 * @module
 */

/** The part of a connection that tests use. */
export type Socket = Pick<Deno.Conn, "read" | "write" | "closeWrite" | "close"> & Disposable;

/** A plain TCP connection, without TLS. */
export type TcpSocket = Socket & Pick<Deno.TcpConn, "setNoDelay">;

/** Accepts connections, by asynchronous iteration. */
export type TcpListener = Deno.TcpListener;

/** A host and a port. */
export interface TcpAddress {
  readonly hostname: string;
  readonly port: number;
}

/** Connects; the signal aborts the attempt. */
export function connectTcp(address: TcpAddress, signal?: AbortSignal): Promise<TcpSocket> {
  const { hostname, port } = address;
  return Deno.connect({ hostname, port, ...signal && { signal } });
}

/** Connects with TLS. */
export function connectTls({ hostname, port }: TcpAddress): Promise<Socket> {
  return Deno.connectTls({ hostname, port });
}

/**
 * Listens on a port.
 *
 * @throws {Error} With the code `EADDRINUSE` if the port is in use.
 */
export function listenTcp({ hostname, port }: TcpAddress): TcpListener {
  return Deno.listen({ hostname, port });
}

/** Listens on any free port, with TLS. The handshake of a connection may fail at its first read. */
export function listenTls(certificate: { cert: string; key: string }): AcceptingTls {
  return Deno.listenTls({ ...certificate, hostname: "127.0.0.1", port: 0 });
}

/** Accepts connections with TLS, by asynchronous iteration. */
export type AcceptingTls = Deno.TlsListener;
