/**
 * A proxy in its own process that delays what clients send, to lengthen the round trip. Delays overlap:
 * a chunk does not wait for the ones before it.
 *
 * @module
 */
import { connect, createServer, type Socket } from "node:net";
import { print, scriptArgument } from "../../testing/runtime/processes.ts";

/** Options of the process. It prints its port. */
export interface DelayProxyOptions {
  readonly port: number;
  readonly delayMs: number;
}

function forward(client: Socket, { port, delayMs }: DelayProxyOptions): void {
  const server = connect(port, "127.0.0.1");
  for (const [socket, other] of [[client, server], [server, client]] as const) {
    socket.setNoDelay(true);
    socket.on("error", () => other.destroy());
    socket.on("close", () => other.destroy());
  }
  client.on("data", (chunk) => void setTimeout(() => server.write(chunk), delayMs));
  server.on("data", (chunk) => client.write(chunk));
}

function main(options: DelayProxyOptions): void {
  const listener = createServer((client) => forward(client, options));
  listener.listen(0, "127.0.0.1", () => {
    print(`${(listener.address() as { port: number }).port}\n`);
  });
}

if (import.meta.main) main(scriptArgument());
