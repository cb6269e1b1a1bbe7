/**
 * Errors of `acquire()` and `tryAcquire()`: a wrong setup is not an outage, even if another copy of the
 * package reports it.
 */
import { assertEquals, assertRejects } from "@std/assert";
import * as ours from "../../core/contract/errors.ts";
import type { HoldOptions } from "../../http/mod.ts";
import { lambdaLock } from "../../http/lambda.ts";
import {
  type DistributedLock,
  LockSetupError,
  LockUnavailableError,
  MemoryLock,
} from "../../mod.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  type Serve,
} from "../../testing/http/one_route.ts";

const copy: typeof ours = await import(
  `${new URL("../../core/contract/errors.ts", import.meta.url)}?copy`
);
const MESSAGE = "Cannot use the Redis client at 10.0.0.1: it was never connected";

/** A lock on which every call fails. */
function failing(inner: MemoryLock, error: Error): DistributedLock {
  return {
    capabilities: inner.capabilities,
    acquire: () => Promise.reject(error),
    tryAcquire: () => Promise.reject(error),
    request: () => Promise.reject(error),
    query: () => Promise.reject(error),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}

const SERVERS: Record<string, (handle: () => void, options: HoldOptions) => Serve> = {
  "fetchLock": (handle, options) => fetchApi(() => (handle(), new Response("done")), options),
  "honoLock": (handle, options) => hono(() => (handle(), new Response("done")), options),
  "koaLock": (handle, options) => koa(() => (handle(), "done"), options),
  "expressLock": (handle, options) => express5((res) => (handle(), res.send("done")), options),
  "fastifyLock": (handle, options) => fastify(() => (handle(), Promise.resolve("done")), options),
};

/** Sends a request to a server whose lock fails; counts the calls of the handler and of `onError`. */
async function ask(
  serve: (typeof SERVERS)[string],
  error: Error,
  waitMs: number,
): Promise<[status: number, handled: number, reported: number]> {
  await using inner = new MemoryLock();
  let [handled, reported] = [0, 0];
  const options = { waitMs, onUnavailable: "proceed" as const, onError: () => void reported++ };
  const server = await serve(() => void handled++, options)(failing(inner, error));
  try {
    return [await statusOf(server.url), handled, reported];
  } finally {
    await server.stop();
  }
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url);
  await response.text();
  return response.status;
}

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name}() answers 500 to a LockSetupError and never runs the handler`, async () => {
    for (const waitMs of [0, 1_000]) {
      for (const { LockSetupError } of [ours, copy]) {
        const error = new LockSetupError(MESSAGE);
        assertEquals(await ask(serve, error, waitMs), [500, 0, 0]);
      }
    }
  });

  Deno.test(`${name}() proceeds on a LockUnavailableError of another copy of the package`, async () => {
    for (const waitMs of [0, 1_000]) {
      for (const { LockUnavailableError } of [ours, copy]) {
        const error = new LockUnavailableError("Cannot reach Redis");
        assertEquals(await ask(serve, error, waitMs), [200, 1, 1]);
      }
    }
  });

  Deno.test(`${name}() answers 503, and the process goes on, when an async onError rejects`, async () => {
    await using inner = new MemoryLock();
    const onError = () => Promise.reject(new Error("The log is full"));
    const lock = failing(inner, new LockUnavailableError("Cannot reach Redis"));
    const server = await serve(() => {}, { onError })(lock);
    try {
      for (let i = 0; i < 2; i++) assertEquals(await statusOf(server.url), 503);
    } finally {
      await server.stop();
    }
  });
}

Deno.test("lambdaLock() rejects with a LockSetupError and never runs the handler", async () => {
  await using inner = new MemoryLock();
  const event = { requestContext: { http: {} } };
  const context = { getRemainingTimeInMillis: () => 60_000 };
  for (const errors of [ours, copy]) {
    let handled = 0;
    const lock = failing(inner, new errors.LockSetupError(MESSAGE));
    const options = { key: "key", onUnavailable: "proceed" as const };
    const handler = lambdaLock(lock, options)(() => void handled++);
    await assertRejects(() => handler(event, context), LockSetupError, MESSAGE);
    assertEquals(handled, 0);
  }
});
