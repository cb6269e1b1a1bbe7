/**
 * The same route in each framework: with our middleware, and with the lock taken by hand.
 *
 * @module
 */
// @ts-types="@types/express"
import express, { type Express, type Request as ExpressRequest } from "express";
import Fastify, { type FastifyInstance } from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { expressLock } from "../http/express.ts";
import { fastifyLock } from "../http/fastify.ts";
import { honoLock, type HonoLockEnv } from "../http/hono.ts";
import { koaLock } from "../http/koa.ts";
import { lambdaLock } from "../http/lambda.ts";
import { fetchLock } from "../http/mod.ts";
import type { DistributedLock } from "../mod.ts";
import {
  type ApiGatewayEvent,
  type RuntimeHandler,
  serveLambda,
} from "../testing/http/lambda_runtime.ts";

/** A route that can be called with the name of a lock. */
export interface Endpoint extends AsyncDisposable {
  /** Sends a request. Rejects unless the handler answered with 200. */
  call(order: string): Promise<void>;
}

type Make = (locks: DistributedLock) => Promise<Endpoint>;

const ANSWER = { state: "shipped" };
const HOST = "127.0.0.1";

function checkAnswer(status: number): void {
  if (status !== 200) throw new Error(`Expected the answer 200, got ${status}`);
}

function endpoint(port: number, close: () => Promise<unknown>): Endpoint {
  return {
    async call(order) {
      const response = await fetch(`http://${HOST}:${port}/orders/${order}`, { method: "POST" });
      await response.body?.cancel();
      checkAnswer(response.status);
    },
    async [Symbol.asyncDispose]() {
      await close();
    },
  };
}

function served(handler: (request: Request) => Response | Promise<Response>): Promise<Endpoint> {
  const options = { port: 0, hostname: HOST, onListen() {} };
  const server = Deno.serve(options, (request) => handler(request));
  return Promise.resolve(endpoint(server.addr.port, () => server.shutdown()));
}

async function listening(app: Koa | Express): Promise<Endpoint> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = app.listen(0, HOST, () => resolve());
  await promise;
  const { port } = server.address() as { port: number };
  // deno-lint-ignore require-await -- a disposal is async
  return endpoint(port, async () => {
    server.close();
    server.closeAllConnections();
  });
}

async function ready(app: FastifyInstance): Promise<Endpoint> {
  const url = await app.listen({ port: 0, host: HOST });
  return endpoint(Number(new URL(url).port), () => app.close());
}

const pathOf = ({ url }: Request) => url.slice(url.lastIndexOf("/orders/"));

/** The part of an event that the functions use. */
type Event = Pick<ApiGatewayEvent, "rawPath">;
const LAMBDA_ANSWER = { statusCode: 200, headers: {}, body: JSON.stringify(ANSWER) };

/** Serves a function through an HTTP front and the Runtime API, in one instance. */
async function invoked(handler: RuntimeHandler<ApiGatewayEvent>): Promise<Endpoint> {
  const { url, [Symbol.asyncDispose]: dispose } = await serveLambda(handler);
  return endpoint(Number(new URL(url).port), async () => await dispose());
}

/** The routes with our middleware. */
export const ours: Readonly<Record<string, Make>> = {
  fetch: (locks) => served(fetchLock(locks, { key: pathOf })(() => Response.json(ANSWER))),

  express(locks) {
    const app = express();
    const lock = expressLock(locks, { key: ({ path }: ExpressRequest) => path });
    app.post("/orders/:id", lock, (_request, response) => void response.json(ANSWER));
    return listening(app);
  },

  koa(locks) {
    const app = new Koa();
    app.use(koaLock(locks, { key: ({ path }) => path }));
    app.use((ctx) => void (ctx.body = ANSWER));
    return listening(app);
  },

  async fastify(locks) {
    const app = Fastify({ forceCloseConnections: true });
    await app.register(fastifyLock, { lock: locks });
    // deno-lint-ignore require-await -- most handlers are async
    app.post("/orders/:id", { config: { lock: ({ url }: { url: string }) => url } }, async () => {
      return ANSWER;
    });
    return await ready(app);
  },

  hono(locks) {
    const app = new Hono<HonoLockEnv>();
    app.post("/orders/:id", honoLock(locks, { key: (c) => c.req.path }), (c) => c.json(ANSWER));
    return served((request) => app.fetch(request));
  },

  lambda(locks) {
    return invoked(
      lambdaLock(locks, { key: ({ rawPath }: Event) => rawPath })(() => LAMBDA_ANSWER),
    );
  },
};

/** The routes with the lock taken by hand. */
export const byHand: Readonly<Record<string, Make>> = {
  fetch: (locks) =>
    served(async (request) => {
      const lease = await locks.tryAcquire(pathOf(request));
      if (lease === null) return new Response("Busy", { status: 409 });
      try {
        return Response.json(ANSWER);
      } finally {
        await lease.release();
      }
    }),

  express(locks) {
    const app = express();
    app.post("/orders/:id", async (request, response) => {
      const lease = await locks.tryAcquire(request.path);
      if (lease === null) return void response.status(409).send("Busy");
      await lease.release();
      response.json(ANSWER);
    });
    return listening(app);
  },

  koa(locks) {
    const app = new Koa();
    app.use(async (ctx) => {
      const lease = await locks.tryAcquire(ctx.path);
      if (lease === null) return ctx.throw(409);
      try {
        ctx.body = ANSWER;
      } finally {
        await lease.release();
      }
    });
    return listening(app);
  },

  async fastify(locks) {
    const app = Fastify({ forceCloseConnections: true });
    app.post("/orders/:id", async (request, reply) => {
      const lease = await locks.tryAcquire(request.url);
      if (lease === null) return reply.code(409).send("Busy");
      try {
        return ANSWER;
      } finally {
        await lease.release();
      }
    });
    return await ready(app);
  },

  hono(locks) {
    const app = new Hono();
    app.post("/orders/:id", async (c) => {
      const lease = await locks.tryAcquire(c.req.path);
      if (lease === null) return c.text("Busy", 409);
      try {
        return c.json(ANSWER);
      } finally {
        await lease.release();
      }
    });
    return served((request) => app.fetch(request));
  },

  lambda: (locks) =>
    invoked(async ({ rawPath }) => {
      const lease = await locks.tryAcquire(rawPath);
      if (lease === null) return { statusCode: 409 };
      try {
        return LAMBDA_ANSWER;
      } finally {
        await lease.release();
      }
    }),
};
