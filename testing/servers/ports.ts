/**
 * Free TCP ports of 127.0.0.1, below the range for outgoing connections. Each process that loads this module
 * has a block of ports for itself, also against other clones of the project: a lock on a file in the
 * temporary folder of the system says so, which ends with the process. So a server can always restart on its
 * port, and a proxy listen again.
 *
 * @module
 */
import { chmodSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { tryLockFile } from "../runtime/file_locks.ts";
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

// Taken when the module is loaded: a file that is opened in a test would count as left open.
const block = reserveBlock();
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

/** The next port of the block. */
function nextPort(): number {
  return FIRST_PORT + block * BLOCK_SIZE + given++ % BLOCK_SIZE;
}

/** Finds a block that no other process has. */
function reserveBlock(): number {
  // All users of the machine share the folder, whatever their masks are.
  const folder = `${tmpdir()}/holdfast-ports`;
  if (mkdirSync(folder, { recursive: true }) !== undefined) chmodSync(folder, 0o777);
  const first = Math.floor(Math.random() * BLOCKS);
  for (let i = 0; i < BLOCKS; i++) {
    const block = (first + i) % BLOCKS;
    if (tryLockFile(`${folder}/${block}`)) return block;
  }
  throw new Error(`No ports are left: other processes hold the locks of all files in ${folder}`);
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
