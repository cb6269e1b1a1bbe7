/**
 * Free TCP ports of 127.0.0.1, below the range from which systems take the ports of outgoing
 * connections: so a server that is down for a while gets its port back, and nobody who reconnects
 * to it meanwhile is given that very port and connects to itself.
 *
 * @module
 */

const FIRST_PORT = 10_000;
const PORT_COUNT = 22_000;
const ATTEMPTS = 100;

/** Listens on a free port. */
export function listenOnFreePort(): Deno.TcpListener {
  for (let attempt = 1;; attempt++) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORT_COUNT);
    try {
      return Deno.listen({ hostname: "127.0.0.1", port });
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** A port that was free a moment ago. */
export function freePort(): number {
  using listener = listenOnFreePort();
  return listener.addr.port;
}
