/**
 * The same server in each framework, with the real packages on real sockets. The handler is in
 * `handler.ts`.
 *
 * @module
 */
import { createServer as createServer1, type RequestListener } from "node:http";
import { createServer as createServer2 } from "node:http2";
import { pipeline, Readable } from "node:stream";
// @ts-types="@types/express"
import express from "express";
import Fastify, { type FastifyServerOptions } from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { expressLock } from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock, type HonoLockEnv } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { lambdaLock } from "../../http/lambda.ts";
import { fetchLock } from "../../http/mod.ts";
import type { Lease } from "../../mod.ts";
import { type Answer, handle, keyOf, ROUTES, type ServerParts } from "./handler.ts";
import { serveLambda } from "./lambda_runtime.ts";
import { nestServer } from "./nest_server.ts";

/** A running server. */
export interface Served extends AsyncDisposable {
  readonly url: string;
}

/** The frameworks under test. */
export type FrameworkName =
  | "fetch"
  | "express"
  | "nestjs"
  | "nestjs-fastify"
  | "koa"
  | "fastify"
  | "hono"
  | "lambda";

function toResponse(answer: Answer): Response {
  if ("text" in answer) return new Response(answer.text);
  return new Response(ReadableStream.from(answer.stream) as ReadableStream<Uint8Array>);
}

function serveFetch(handler: (request: Request) => Response | Promise<Response>): Served {
  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    onError: () => new Response("failed", { status: 500 }),
  }, (request) => handler(request));
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

// deno-lint-ignore require-await -- async like the other servers
async function fetchServer(parts: ServerParts): Promise<Served> {
  const handlers = new Map(ROUTES.map(({ path, unlockedMethods: _, ...options }) => {
    const wrap = fetchLock(parts.lock, { ...options, key: ({ url }) => keyOf(parts, url) });
    return [
      path,
      wrap(async ({ url }, lease) => toResponse(await handle(parts, url, lease))),
    ] as const;
  }));
  return serveFetch((request) => handlers.get(new URL(request.url).pathname)!(request));
}

// deno-lint-ignore require-await -- async like the other servers
async function honoServer(parts: ServerParts): Promise<Served> {
  const app = new Hono<HonoLockEnv>();
  app.onError((_error, c) => c.text("failed", 500));
  for (const { path, ...options } of ROUTES) {
    app.all(
      path,
      honoLock(parts.lock, { ...options, key: (c) => keyOf(parts, c.req.raw.url) }),
      async (c) => toResponse(await handle(parts, c.req.url, c.get("lease"))),
    );
  }
  return serveFetch((request) => app.fetch(request));
}

async function expressServer(parts: ServerParts): Promise<Served> {
  const app = express();
  for (const { path, ...options } of ROUTES) {
    const key = (req: express.Request) => keyOf(parts, req.originalUrl);
    app.all(path, expressLock(parts.lock, { ...options, key }), async (req, res) => {
      const answer = await handle(parts, req.originalUrl, res.locals.lease);
      if ("text" in answer) return void res.send(answer.text);
      // Express leaves that to the handler: without a body to send, nothing would be sent until the end.
      if (req.method === "HEAD") return void res.end();
      pipeline(Readable.from(answer.stream), res, () => {});
    });
  }
  const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => {
    res.status(500).send("failed");
  };
  app.use(failed);
  return await serveHttp1(app);
}

async function koaServer(parts: ServerParts): Promise<Served> {
  const app = new Koa();
  app.silent = true;
  for (const { path, ...options } of ROUTES) {
    const lock = koaLock(parts.lock, {
      ...options,
      key: (ctx: Koa.Context) => keyOf(parts, ctx.url),
    });
    app.use((ctx, next) => ctx.path === path ? lock(ctx, next) : next());
  }
  app.use(async (ctx) => {
    const answer = await handle(parts, ctx.url, ctx.state.lease);
    ctx.body = "text" in answer ? answer.text : Readable.from(answer.stream);
  });
  return await (parts.protocol === "http/2" ? serveHttp2(app) : serveHttp1(app.callback()));
}

async function serveHttp1(handler: RequestListener): Promise<Served> {
  const server = createServer1(handler);
  return {
    url: await listen(server),
    // deno-lint-ignore require-await -- an async disposal must return a promise
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function serveHttp2(app: Koa): Promise<Served> {
  // Koa's types know `node:http` only.
  const server = createServer2(app.callback() as never);
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  return {
    url: await listen(server),
    // deno-lint-ignore require-await -- an async disposal must return a promise
    async [Symbol.asyncDispose]() {
      server.close();
      for (const session of sessions) session.destroy();
    },
  };
}

/** Listens on any free port; returns the URL. */
async function listen(
  server: {
    listen(port: number, host: string, onListen: () => void): unknown;
    address(): unknown;
  },
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await promise;
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

async function fastifyServer(parts: ServerParts): Promise<Served> {
  // Fastify's types have another kind of instance for each protocol.
  const options = { forceCloseConnections: true, http2: parts.protocol === "http/2" };
  const app = Fastify(options as FastifyServerOptions);
  await app.register(fastifyLock, { lock: parts.lock });
  for (const { path: url, ...options } of ROUTES) {
    const lock = { ...options, key: (request: { url: string }) => keyOf(parts, request.url) };
    app.get(url, { config: { lock } }, async (request, reply) => {
      const lease = request.getDecorator<Lease | null>("lease") ?? undefined;
      const answer = await handle(parts, request.url, lease);
      if ("text" in answer) return answer.text;
      return reply.send(Readable.from(answer.stream));
    });
  }
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  return { url, [Symbol.asyncDispose]: () => app.close() };
}

async function lambdaServer(parts: ServerParts): Promise<Served> {
  const handlers = new Map(
    ROUTES.map(({ path, fencingHeader: _, unlockedMethods: __, ...options }) => [
      path,
      lambdaLock(parts.lock, {
        ...options,
        key: (event: { url: string }) => keyOf(parts, event.url),
      })(
        async ({ url }, _context, lease) => {
          const answer = await handle(parts, url, lease);
          if (!("text" in answer)) throw new Error("This Lambda server cannot stream");
          return { statusCode: 200, headers: {}, body: answer.text };
        },
      ),
    ]),
  );
  return await serveLambda((event, context) => {
    const url = `${event.rawPath}?${event.rawQueryString}`;
    return handlers.get(event.rawPath)!({ ...event, url }, context);
  });
}

/** Starts the server of each framework. */
export const FRAMEWORKS: Readonly<Record<FrameworkName, (parts: ServerParts) => Promise<Served>>> =
  {
    fetch: fetchServer,
    express: expressServer,
    nestjs: nestServer,
    "nestjs-fastify": (parts) => nestServer(parts, "fastify"),
    koa: koaServer,
    fastify: fastifyServer,
    hono: honoServer,
    lambda: lambdaServer,
  };
