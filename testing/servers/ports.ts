/**
 * Free TCP ports of 127.0.0.1, below the range for outgoing connections. Each process that loads this module
 * has a block of ports for itself, also against other clones of the project: it listens on the block's first
 * port until it ends. So a server can always restart on its port, and a proxy listen again.
 *
 * @module
 */
import { connectTcp, listenTcp, type TcpListener } from "../runtime/sockets.ts";
import { pause } from "./wait.ts";

const HOST = "127.0.0.1";
const FIRST_PORT = 10_000;
/** How far above its port a Redis Cluster node listens to the other nodes: a block has both. */
const BUS_OFFSET = 10_000;
const BLOCK_SIZE = 50;
const BLOCKS = BUS_OFFSET / BLOCK_SIZE;
const ATTEMPTS = 100;
/** The pause in ms before a port is tried again. */
const AGAIN_MS = 20;

// Taken when the module is loaded: a listener that is opened in a test would count as left open.
const block = takeBlock();
/** How many ports of the block were given away. After the last comes the first. */
let given = 0;

/** Listens on a free port. */
export function listenOnFreePort(): TcpListener {
  return retried(() => listen(nextPort()));
}

/** A free port of this process. */
export function freePort(): number {
  using listener = listenOnFreePort();
  return listener.addr.port;
}

/** A free port of this process, whose cluster bus port is free, too. */
export function freeClusterPort(): number {
  return retried(() => {
    using listener = listen(nextPort());
    const { port } = listener.addr;
    using _bus = listen(port + BUS_OFFSET);
    return port;
  });
}

/** The next port of the block. The first one marks it as taken. */
function nextPort(): number {
  return block.addr.port + 1 + given++ % (BLOCK_SIZE - 1);
}

/** Listens on the first port of a block that no other process has. */
function takeBlock(): TcpListener {
  const start = Math.floor(Math.random() * BLOCKS);
  let block = 0;
  return retried(() => listen(FIRST_PORT + (start + block++) % BLOCKS * BLOCK_SIZE), BLOCKS);
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
function retried<T>(attempt: () => T, attempts = ATTEMPTS): T {
  for (let count = 1;; count++) {
    try {
      return attempt();
    } catch (error) {
      if (!isInUse(error) || count === attempts) throw error;
    }
  }
}
