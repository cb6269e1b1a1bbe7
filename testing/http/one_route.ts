/**
 * Servers with one route under the lock `key`.
 *
 * @module
 */
// @ts-types="@types/express"
import express from "express";
import Fastify, { type FastifyReply } from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { expressLock } from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { lambdaLock, type LambdaLockOptions } from "../../http/lambda.ts";
import { fetchLock, type FetchLockOptions, type HoldOptions } from "../../http/mod.ts";
import type { DistributedLock } from "../../mod.ts";
import { listen, type Serving } from "./listen.ts";
import { type ApiGatewayEvent, type RuntimeContext, serveLambda } from "./lambda_runtime.ts";

/** Starts a server. */
export type Serve = (lock: DistributedLock) => Promise<Serving>;

/** The options of the route's lock, and what a test watches. */
export interface RouteOptions extends HoldOptions {
  /** Replaces the key `key`. Its result may have any type, as that of a JavaScript program. */
  readonly key?: () => unknown;
  /** Called with the error behind each 500. */
  readonly onFailure?: (error: unknown) => void;
}

/** Splits the options: those of the lock, and what to do with the error behind a 500. */
function split({ onFailure = () => {}, ...rest }: RouteOptions) {
  return { onFailure, held: { key: "key", ...rest } as HoldOptions & { key: () => string } };
}

// deno-lint-ignore require-await -- async like the other servers
async function serveFetch(
  handler: (request: Request) => Response | Promise<Response>,
  onFailure: (error: unknown) => void,
) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const onError = (error: unknown) => {
    onFailure(error);
    return new Response("failed", { status: 500 });
  };
  const server = Deno.serve({ ...options, onError }, (request) => handler(request));
  return { url: `http://127.0.0.1:${server.addr.port}`, stop: () => server.shutdown() };
}

/** A server with `fetchLock()` on `Deno.serve`. */
export function fetchApi(
  respond: () => Response | Promise<Response>,
  options: RouteOptions = {},
): Serve {
  const { onFailure, held } = split(options);
  const wrap = (lock: DistributedLock) => fetchLock(lock, held as FetchLockOptions);
  return (lock) => serveFetch(wrap(lock)(() => respond()), onFailure);
}

/** A server with `honoLock()` on `Deno.serve`. */
export function hono(
  respond: () => Response | Promise<Response>,
  options: RouteOptions = {},
): Serve {
  const { onFailure, held } = split(options);
  return (lock) => {
    const app = new Hono();
    app.onError((error, c) => {
      onFailure(error);
      return c.text("failed", 500);
    });
    app.get("/", honoLock(lock, held), () => respond());
    return serveFetch((request) => app.fetch(request), onFailure);
  };
}

/** A server with `koaLock()`. */
export function koa(body: () => unknown, options: RouteOptions = {}): Serve {
  const { onFailure, held } = split(options);
  return async (lock) => {
    const app = new Koa();
    app.on("error", onFailure);
    app.use(koaLock(lock, held));
    app.use(async (ctx) => {
      ctx.body = await body();
    });
    return await listen(app.callback());
  };
}

/** A server with `expressLock()`. The handler may answer at any time. */
export function express5(
  handler: (res: express.Response) => unknown,
  options: RouteOptions = {},
): Serve {
  const { onFailure, held } = split(options);
  return async (lock) => {
    const app = express();
    app.get("/", expressLock(lock, held), async (_req, res) => void await handler(res));
    const failed: express.ErrorRequestHandler = (error, _req, res, next) => {
      onFailure(error);
      if (res.headersSent) return next(error);
      res.status(500).send("failed");
    };
    app.use(failed);
    return await listen(app);
  };
}

/** A server with `fastifyLock()`. */
export function fastify(
  handler: (reply: FastifyReply) => unknown,
  options: RouteOptions = {},
): Serve {
  const { onFailure, held: { key, ...held } } = split(options);
  return async (lock) => {
    const app = Fastify({ forceCloseConnections: true });
    app.setErrorHandler((error, _request, reply) => {
      onFailure(error);
      return reply.code((error as { statusCode?: number }).statusCode ?? 500).send("failed");
    });
    await app.register(fastifyLock, { ...held, lock });
    app.get("/", { config: { lock: key } }, (_request, reply) => handler(reply));
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  };
}

type LambdaOptions = LambdaLockOptions<ApiGatewayEvent, RuntimeContext>;

/** A server with `lambdaLock()` behind an HTTP API. */
export function lambda(handle: () => unknown, options: RouteOptions = {}): Serve {
  const { onFailure, held } = split(options);
  return async (lock) => {
    const handler = lambdaLock(lock, held as LambdaOptions)(async () => {
      return { statusCode: 200, headers: {}, body: String(await handle()) };
    });
    const served = await serveLambda(async (event, context) => {
      try {
        return await handler(event, context);
      } catch (error) {
        onFailure(error);
        throw error;
      }
    });
    return { url: served.url, stop: async () => await served[Symbol.asyncDispose]() };
  };
}
