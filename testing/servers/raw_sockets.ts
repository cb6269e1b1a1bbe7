/**
 * Helpers for raw sockets: closing, connecting on loopback, writing all bytes.
 *
 * @module
 */

import { connectTcp, type Socket, type TcpAddress, type TcpSocket } from "../runtime/sockets.ts";

/** Closes a socket on disposal or when a signal aborts. */
export interface Closer extends Disposable {
  readonly isOpen: boolean;
}

/** Closes a socket at most once, on disposal or when the signal aborts. */
export function closer(socket: Disposable, signal?: AbortSignal): Closer {
  let isOpen = true;
  const close = () => {
    if (isOpen) socket[Symbol.dispose]();
    isOpen = false;
    signal?.removeEventListener("abort", close);
  };
  if (signal?.aborted) close();
  else signal?.addEventListener("abort", close);
  return {
    get isOpen() {
      return isOpen;
    },
    [Symbol.dispose]: close,
  };
}

/**
 * Connects on loopback, where connecting never takes long, so the signal is checked afterwards.
 * `Deno.connect()` with a signal can leak a connection that is made while the signal aborts (seen in
 * Deno 2.9.6 on a busy machine).
 */
export async function connectLocally(
  address: TcpAddress,
  signal: AbortSignal,
): Promise<TcpSocket> {
  const socket = await connectTcp(address);
  if (!signal.aborted) return socket;
  socket.close();
  throw signal.reason;
}

/** Writes all bytes; a single `write()` may write only some of them. */
export async function writeAll(socket: Socket, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
}
