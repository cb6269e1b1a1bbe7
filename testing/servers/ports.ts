/**
 * Finds free TCP ports of 127.0.0.1 below the range for outgoing connections. So a server can always
 * restart on its port: no client that reconnects in the meantime can be assigned that port (and then
 * connect to itself).
 *
 * @module
 */
import { connectTcp, listenTcp, type TcpListener } from "../runtime/sockets.ts";
import { pause } from "./wait.ts";

const HOST = "127.0.0.1";
const FIRST_PORT = 10_000;
const PORT_COUNT = 22_000;
const ATTEMPTS = 100;
/** The pause in ms before a port is tried again. */
const AGAIN_MS = 20;

/** How far above its port a Redis Cluster node listens to the other nodes. */
const BUS_OFFSET = 10_000;

/** Listens on a free port. */
export function listenOnFreePort(): TcpListener {
  return retried(() => listen(FIRST_PORT + Math.floor(Math.random() * PORT_COUNT)));
}

/** A port that was free a moment ago. */
export function freePort(): number {
  using listener = listenOnFreePort();
  return listener.addr.port;
}

/** A port that was free a moment ago, and whose cluster bus port was free too. */
export function freeClusterPort(): number {
  return retried(() => {
    using listener = listen(FIRST_PORT + Math.floor(Math.random() * (PORT_COUNT - BUS_OFFSET)));
    const { port } = listener.addr;
    using _bus = listen(port + BUS_OFFSET);
    return port;
  });
}

/**
 * Waits until nobody listens on a port that this process has left. A child that another test starts has
 * copies of all sockets for a moment, so the system may still accept connections.
 */
export async function refused(port: number): Promise<void> {
  for (let count = 1;; count++) {
    try {
      (await connectTcp({ hostname: HOST, port })).close();
    } catch {
      return;
    }
    if (count === ATTEMPTS) throw new Error(`Port ${port} is still open`);
    await pause(AGAIN_MS);
  }
}

/** Listens again on a port that this process has left. It may still be in use, as above. */
export async function listenAgain(port: number): Promise<TcpListener> {
  for (let count = 1;; count++) {
    try {
      return listen(port);
    } catch (error) {
      if (!isInUse(error) || count === ATTEMPTS) throw error;
    }
    await pause(AGAIN_MS);
  }
}

function listen(port: number): TcpListener {
  return listenTcp({ hostname: HOST, port });
}

function isInUse(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "EADDRINUSE";
}

/** Tries again while a port is in use. */
function retried<T>(attempt: () => T): T {
  for (let count = 1;; count++) {
    try {
      return attempt();
    } catch (error) {
      if (!isInUse(error) || count === ATTEMPTS) throw error;
    }
  }
}
