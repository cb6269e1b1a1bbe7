/**
 * A connection to an HTTP/2 server that ends without a goodbye.
 *
 * @module
 */
import { type ClientHttp2Session, connect } from "node:http2";
import { connect as connectTcp } from "node:net";

/** A connection. Its disposal closes the socket at once. */
export interface Http2Connection extends Disposable {
  readonly session: ClientHttp2Session;
}

/**
 * Connects. `session.close()` and `session.destroy()` must not be called, and `fetch()` must not be used:
 * they send GOAWAY, and after that an assertion in Deno 2.9's `node:http2` can end the server's process.
 */
export function connectHttp2(url: string | URL): Http2Connection {
  const { origin, hostname, port } = new URL(url);
  const socket = connectTcp(Number(port), hostname).on("error", () => {});
  const session = connect(origin, { createConnection: () => socket }).on("error", () => {});
  return { session, [Symbol.dispose]: () => void socket.destroy() };
}

/** A request of {@linkcode fetchOnHttp2}. */
export interface Http2Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | null | undefined;
  readonly signal?: AbortSignal | null | undefined;
}

/** Sends a request on a connection of its own, and reads the response. Rejects as `fetch()` does. */
export async function fetchOnHttp2(
  url: string,
  { method, path, headers, body, signal }: Http2Request,
): Promise<Response> {
  using connection = connectHttp2(url);
  const stream = connection.session.request({ ...headers, ":method": method, ":path": path });
  const answer = { status: 0, headers: new Headers(), text: "" };
  stream.on("response", (received) => {
    answer.status = Number(received[":status"]);
    for (const [name, value] of Object.entries(received)) {
      if (!name.startsWith(":")) answer.headers.set(name, String(value));
    }
  });
  stream.setEncoding("utf8").on("data", (text) => answer.text += text);
  const ended = new Promise<void>((resolve, reject) => {
    stream.on("end", resolve);
    stream.on("error", reject);
    connection.session.on("error", reject);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    signal?.throwIfAborted();
  });
  stream.end(body ?? undefined);
  await ended;
  const { status } = answer;
  return new Response([204, 304].includes(status) ? null : answer.text, {
    status,
    headers: answer.headers,
  });
}
