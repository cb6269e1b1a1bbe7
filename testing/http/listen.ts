/**
 * Starts servers of `node:http`.
 *
 * @module
 */
import { createServer, type RequestListener } from "node:http";

/** A running server. */
export interface Serving {
  readonly url: string;
  stop(): Promise<unknown>;
}

/** Starts a server of `node:http` on any free port. */
export async function listen(handler: RequestListener): Promise<Serving & AsyncDisposable> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
    },
  };
}
