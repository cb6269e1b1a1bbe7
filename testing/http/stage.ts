/**
 * Two servers of one framework that share a lock, and a client for them. Tests of the suite run on it.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { waitUntil } from "../servers/wait.ts";
import type { FrameworkName } from "./frameworks.ts";
import type { Protocol } from "./handler.ts";
import type { Place } from "./places.ts";
import { type ServerProcess, startServer } from "./server_processes.ts";

/** A request to one of the servers. */
export interface Ask {
  readonly path: string;
  /** Omitted for a request without a lock. */
  readonly key?: string;
  /** The gate that the key function waits for. */
  readonly late?: string;
  readonly id?: string;
  readonly mode?: string;
  readonly method?: string;
  readonly signal?: AbortSignal;
}

/** A response that was read to its end. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A time in which a handler held the lock, in µs, and its token. */
export interface Hold {
  readonly token: number;
  readonly held: readonly [fromUs: number, toUs: number];
}

/** Two servers that share a lock. */
export interface Stage extends AsyncDisposable {
  readonly framework: FrameworkName;
  readonly place: Place;
  readonly protocol: Protocol;
  readonly a: ServerProcess;
  readonly b: ServerProcess;
  /** Sends a request and reads the whole response. */
  ask(server: ServerProcess, ask: Ask): Promise<Reply>;
  /** Sends a request. The caller reads the response. */
  open(server: ServerProcess, ask: Ask): Promise<Response>;
  /** Acquires and releases the lock: fails if it does not become free. */
  untilFree(key: string): Promise<void>;
  /** Waits until a lock has this number of waiters, as one server sees it. */
  untilWaiting(server: ServerProcess, key: string, waiters: number): Promise<void>;
}

/** Starts the servers. */
export async function openStage(
  framework: FrameworkName,
  place: Place,
  protocol: Protocol,
): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const isHttp2 = protocol === "http/2";
  // HTTP/2 has one connection for all requests. It stays open: Deno 2.9's `node:http2` can crash when a
  // client says goodbye (an assertion of nghttp2 fails).
  const version = isHttp2 ? { http1: false, http2: true } : { http2: false, poolMaxIdlePerHost: 0 };
  const client = stack.use(Deno.createHttpClient(version));
  const options = { spec: place.spec, frameworks: [framework], protocol };
  const [a, b] = await Promise.all([startServer(options), startServer(options)]);
  stack.use(a);
  stack.use(b);
  const open = (server: ServerProcess, { path, method = "GET", signal, ...query }: Ask) => {
    const url = `${server.url(framework)}${path}?${new URLSearchParams(query)}`;
    return fetch(url, { client, method, ...signal && { signal } });
  };
  const ask = async (server: ServerProcess, asked: Ask) => {
    const response = await open(server, asked);
    const { status, headers } = response;
    return { status, headers, text: await response.text() };
  };
  const owned = stack.move();
  return {
    ...{ framework, place, protocol, a, b, open, ask },
    async untilFree(key) {
      assertEquals((await ask(b, { path: "/patient", key, id: "free?" })).status, 200);
    },
    untilWaiting: (server, key, waiters) =>
      waitUntil(
        `${waiters} wait for ${key}`,
        async () => (await server.query(key)).waiters === waiters,
      ),
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}

/** Parses the answer of a handler. */
export function holdOf({ text }: Reply): Hold {
  const { token, held } = JSON.parse(text);
  return { token: Number(token), held };
}

/** One behaviour that the suite tests. The name follows `<framework>Lock()` in the test's title. */
export type Step = readonly [name: string, test: (stage: Stage) => Promise<void>];
