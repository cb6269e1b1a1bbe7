/**
 * What every use of raw sockets needs.
 *
 * @module
 */

import { connectTcp, type Socket, type TcpAddress, type TcpSocket } from "../runtime/sockets.ts";

/** Closes a socket when it is disposed of, or when a signal aborts. */
export interface Closer extends Disposable {
  readonly isOpen: boolean;
}

/** Takes over the closing of a socket; a second close does nothing. */
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
 * Connects on loopback, where that ends at once. `Deno.connect` with a signal now and then loses a
 * connection that is made as the signal aborts: seen with 2.9.6 on a busy machine.
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

/** Writes all bytes, for one call may write only some of them. */
export async function writeAll(socket: Socket, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
}
