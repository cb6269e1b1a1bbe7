/**
 * A proxy in its own process that delays what clients send, to lengthen the round trip. Delays overlap:
 * a chunk does not wait for the ones before it.
 *
 * @module
 */
import { connect, createServer, type Socket } from "node:net";
import { linesOf } from "../../testing/runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../../testing/runtime/processes.ts";

/** Options of the process. It prints its port, and reads the delay in ms from each line of its input. */
export interface DelayProxyOptions {
  readonly port: number;
}

/** The longest sleep, in ms, without a look at the sockets. */
const NAP_MS = 0.1;

/** Chunks that wait for their time. A timer of the runtime is a millisecond late or more. */
class Delays {
  delayMs = 0;
  #waiting: { readonly dueMs: number; readonly send: () => void }[] = [];
  readonly #cell = new Int32Array(new SharedArrayBuffer(4));

  add(send: () => void): void {
    this.#waiting.push({ dueMs: performance.now() + this.delayMs, send });
    if (this.#waiting.length === 1) setImmediate(() => this.#turn());
  }

  #turn(): void {
    const nowMs = performance.now();
    const later = this.#waiting.findIndex(({ dueMs }) => dueMs > nowMs);
    const count = later === -1 ? this.#waiting.length : later;
    for (const { send } of this.#waiting.splice(0, count)) send();
    const next = this.#waiting[0];
    if (next === undefined) return;
    Atomics.wait(this.#cell, 0, 0, Math.min(NAP_MS, next.dueMs - nowMs));
    setImmediate(() => this.#turn());
  }
}

function forward(client: Socket, port: number, delays: Delays): void {
  const server = connect(port, "127.0.0.1");
  for (const [socket, other] of [[client, server], [server, client]] as const) {
    socket.setNoDelay(true);
    socket.on("error", () => other.destroy());
    socket.on("close", () => other.destroy());
  }
  client.on("data", (chunk) => delays.add(() => server.write(chunk)));
  server.on("data", (chunk) => client.write(chunk));
}

async function main({ port }: DelayProxyOptions): Promise<void> {
  const delays = new Delays();
  const listener = createServer((client) => forward(client, port, delays));
  listener.listen(0, "127.0.0.1", () => {
    print(`${(listener.address() as { port: number }).port}\n`);
  });
  const orders = linesOf(scriptInput());
  for (let line; (line = await orders.next()) !== null;) delays.delayMs = Number(line);
}

if (import.meta.main) await main(scriptArgument());
