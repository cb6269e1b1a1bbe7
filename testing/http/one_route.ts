/**
 * Servers with one route under the lock `key`, and a lock whose leases a test can change.
 *
 * @module
 */
import Fastify, { type FastifyReply } from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { fetchLock, type FetchLockOptions, type HoldOptions } from "../../http/mod.ts";
import type { DistributedLock, Lease } from "../../mod.ts";

/** A running server. */
export interface Serving {
  readonly url: string;
  stop(): Promise<unknown>;
}

/** Starts a server. */
export type Serve = (lock: DistributedLock) => Promise<Serving>;

// deno-lint-ignore require-await -- async like the other servers
async function serveFetch(handler: (request: Request) => Response | Promise<Response>) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, (request) => handler(request));
  return { url: `http://127.0.0.1:${server.addr.port}`, stop: () => server.shutdown() };
}

/** A server with `fetchLock()` on `Deno.serve`. */
export function fetchApi(
  respond: () => Response | Promise<Response>,
  options: HoldOptions = {},
): Serve {
  const held = { ...options, key: "key" } as FetchLockOptions;
  return (lock) => serveFetch(fetchLock(lock, held)(() => respond()));
}

/** A server with `honoLock()` on `Deno.serve`. */
export function hono(respond: () => Response, options: HoldOptions = {}): Serve {
  return (lock) => {
    const app = new Hono();
    app.get("/", honoLock(lock, { ...options, key: "key" }), () => respond());
    return serveFetch((request) => app.fetch(request));
  };
}

/** A server with `koaLock()`. */
export function koa(body: () => unknown, options: HoldOptions = {}): Serve {
  return async (lock) => {
    const app = new Koa();
    app.silent = true;
    app.use(koaLock(lock, { ...options, key: "key" }));
    app.use(async (ctx) => {
      ctx.body = await body();
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    const server = app.listen(0, "127.0.0.1", () => resolve());
    await promise;
    return {
      url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
      stop() {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      },
    };
  };
}

/** A server with `fastifyLock()`. */
export function fastify(
  handler: (reply: FastifyReply) => unknown,
  options: HoldOptions = {},
): Serve {
  return async (lock) => {
    const app = Fastify({ forceCloseConnections: true });
    await app.register(fastifyLock, { ...options, lock });
    app.get("/", { config: { lock: "key" } }, (_request, reply) => handler(reply));
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  };
}

/** Wraps a lock: changes each lease of `tryAcquire()` before it is returned. */
export function withLeases(
  inner: DistributedLock,
  change: (lease: Lease) => Lease,
): DistributedLock {
  return {
    capabilities: inner.capabilities,
    acquire: (...args) => inner.acquire(...args),
    request: (...args: unknown[]) => (inner.request as (...args: unknown[]) => never)(...args),
    query: (name) => inner.query(name),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
    async tryAcquire(name, options) {
      const lease = await inner.tryAcquire(name, options);
      return lease && change(lease);
    },
  };
}
