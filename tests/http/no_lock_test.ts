/**
 * A key function that opts out, misses something in the request, or has a bug: no request may skip the
 * lock because a client left something out.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import Fastify from "fastify";
import { fastifyLock } from "../../http/fastify.ts";
import { NO_LOCK } from "../../http/mod.ts";
import { MemoryLock } from "../../mod.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  lambda,
  type RouteOptions,
  type Serve,
} from "../../testing/http/one_route.ts";

const SERVERS: Record<string, (handle: () => void, options: RouteOptions) => Serve> = {
  fetchLock: (handle, options) => fetchApi(() => (handle(), new Response("done")), options),
  honoLock: (handle, options) => hono(() => (handle(), new Response("done")), options),
  koaLock: (handle, options) => koa(() => (handle(), "done"), options),
  expressLock: (handle, options) => express5((res) => (handle(), res.send("done")), options),
  fastifyLock: (handle, options) => fastify(() => (handle(), Promise.resolve("done")), options),
  lambdaLock: (handle, options) => lambda(() => (handle(), "done"), options),
};

interface Outcome {
  readonly status: number;
  readonly text: string;
  readonly handled: number;
  readonly failures: readonly string[];
}

/** Sends a request to a server with this key function, while another client holds the lock `key`. */
async function ask(serve: (typeof SERVERS)[string], key: () => unknown): Promise<Outcome> {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key");
  let handled = 0;
  const failures: string[] = [];
  const onFailure = (error: unknown) => void failures.push((error as Error).message);
  const server = await serve(() => void handled++, { key, onFailure })(locks);
  try {
    const response = await fetch(server.url);
    return { status: response.status, text: await response.text(), handled, failures };
  } finally {
    await server.stop();
  }
}

const fail = (error: Error) => (): never => {
  throw error;
};

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name}() answers 500, names NO_LOCK and never runs the handler when the key is not a string`, async () => {
    for (const value of [undefined, null, 42, Symbol("other")]) {
      for (const key of [() => value, () => Promise.resolve(value)]) {
        const { status, handled, failures } = await ask(serve, key);
        assertEquals([status, handled, failures.length], [500, 0, 1], String(value));
        assertStringIncludes(failures[0]!, "NO_LOCK");
      }
    }
  });

  Deno.test(`${name}() runs the handler without a lock when the key is NO_LOCK`, async () => {
    for (const key of [() => NO_LOCK, () => Promise.resolve(NO_LOCK)]) {
      const { status, handled } = await ask(serve, key);
      assertEquals([status, handled], [200, 1]);
    }
  });

  Deno.test(`${name}() answers with the status of a key function's error when it is 400 to 499`, async () => {
    const missing = Object.assign(new Error("Send the header x-order"), {
      statusCode: 400,
      headers: { "x-why": "order" },
    });
    for (const key of [fail(missing), () => Promise.reject(missing)]) {
      const { status, text, handled, failures } = await ask(serve, key);
      assertEquals([status, handled, failures], [400, 0, []]);
      const { type, detail } = JSON.parse(text);
      assertEquals([type, detail], ["urn:holdfast:problem:bad-request", missing.message]);
    }
    const stranger = Object.assign(new Error("Say who you are"), { statusCode: 401 });
    assertEquals((await ask(serve, fail(stranger))).status, 401);
    const spelling = await ask(serve, () => decodeURIComponent("%ff"));
    assertEquals([spelling.status, spelling.handled], [400, 0]);
    const secret = Object.assign(new Error("secret"), { statusCode: 503 });
    for (const bug of [secret, new Error("secret")]) {
      const { handled, failures } = await ask(serve, fail(bug));
      assertEquals([handled, failures], [0, ["secret"]]);
    }
  });
}

Deno.test("fastifyLock() throws when a route's config has a lock that is undefined, and locks none with NO_LOCK", async () => {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key");
  const app = Fastify();
  await app.register(fastifyLock, { lock: locks });
  let thrown: unknown;
  try {
    app.get("/undefined", { config: { lock: undefined } }, () => "never");
  } catch (error) {
    thrown = error;
  }
  assert(thrown instanceof TypeError);
  assertStringIncludes(thrown.message, "NO_LOCK");
  app.get("/none", { config: { lock: NO_LOCK } }, () => "done");
  assertEquals((await app.inject({ url: "/none" })).body, "done");
  await app.close();
});
