/**
 * Opens a socket to a server, with or without TLS. When, and to which server, is decided in
 * `connector.ts`.
 *
 * @module
 */
import { connect, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Socket } from "./client_internals.ts";
import type { Target } from "./server_rotation.ts";
import type { TlsSettings } from "./tls.ts";

/**
 * Opens a socket.
 *
 * @param target The server, and the address to connect to.
 * @param tls The TLS settings; `undefined` for a socket without TLS.
 * @returns A socket that is connecting. With TLS, it emits `"secureConnect"` when the handshake is done
 * and the server's certificate is accepted. No byte is sent before, except those of the handshake.
 */
export function openSocket({ server, address }: Target, tls: TlsSettings | undefined): Socket {
  const place = { host: address ?? server.host, port: server.port };
  if (tls === undefined) return connect(place);
  // The certificate is for the host, whatever its address is. TLS sends no IP address as a name.
  const servername = isIP(server.host) === 0 ? { servername: server.host } : {};
  return connectTls({ ...servername, ...tls, ...place });
}
