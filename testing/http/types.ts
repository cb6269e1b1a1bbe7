/**
 * Code as users write it, with the types of the real packages and without casts. It is type-checked but
 * never run.
 *
 * @module
 */
// @ts-types="@types/express"
import express from "express";
import Fastify from "fastify";
import { type Context, Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import {
  expressLock,
  type ExpressLockLocals,
  type ExpressLockRequest,
} from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock, type HonoLockEnv } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { fetchLock, NO_LOCK } from "../../http/mod.ts";
import type { DistributedLock, Lease } from "../../mod.ts";

/** Koa: with its own context, and with the context of a router. */
export function koaTypes(locks: DistributedLock): Koa {
  const app = new Koa();
  app.use(koaLock(locks, "my-lock"));
  app.use(koaLock(locks, { key: "my-lock", waitMs: 2_000 }));
  app.use(koaLock(locks, { key: (ctx) => ctx.get("x-order") || NO_LOCK }));
  // @ts-expect-error: a missing header must not mean "no lock"
  app.use(koaLock(locks, { key: () => undefined }));
  app.use(koaLock(locks, { key: (ctx: Koa.Context) => ctx.request.ip }));
  app.use((ctx) => {
    const lease: Lease = ctx.state.lease;
    ctx.body = String(lease.fencingToken);
  });
  type RouterContext = Koa.ParameterizedContext & { params: Record<string, string> };
  const route = (_middleware: Koa.Middleware<Koa.DefaultState, RouterContext>) => {};
  route(koaLock(locks, { key: (ctx: RouterContext) => `orders:${ctx.params.id}` }));
  const typed = new Koa<{ lease: Lease; user: string }>();
  typed.use(koaLock(locks, "my-lock"));
  return app;
}

/** Express: with its own request, with typed parameters and locals, and on a router. */
export function expressTypes(locks: DistributedLock): express.Express {
  const app = express();
  app.use(expressLock(locks, "my-lock"));
  app.use("/a", expressLock(locks, { key: (req) => req.get("x-order") || NO_LOCK }));
  // @ts-expect-error: a missing header must not mean "no lock"
  app.use(expressLock(locks, { key: () => undefined }));
  app.use(expressLock(locks, { key: (req: express.Request) => req.ip ?? "unknown" }));
  const key = ({ params }: ExpressLockRequest) => `orders:${params.id}`;
  const lock = expressLock(locks, { key, waitMs: 2_000 });
  app.get("/orders/:id", lock, (req, res) => {
    const id: string = req.params.id; // the lock leaves the types of the route as they are
    res.json({ id, token: String(res.locals.lease.fencingToken) });
  });
  app.post("/orders/:id", lock, (req, res: express.Response<string, ExpressLockLocals>) => {
    res.send(`${req.params.id} done under token ${res.locals.lease.fencingToken}`);
  });
  interface Params {
    id: string;
  }
  const typed = (req: express.Request<Params>) => `orders:${req.params.id}`;
  const router = express.Router();
  router.post<Params>("/orders/:id", expressLock(locks, { key: typed }), (_req, res) => {
    const lease: Lease = res.locals.lease;
    res.json({ token: String(lease.fencingToken) });
  });
  return app.use(router);
}

/** Fastify: with typed parameters. */
export async function fastifyTypes(locks: DistributedLock): Promise<void> {
  const app = Fastify();
  await app.register(fastifyLock, { lock: locks, waitMs: 2_000, fencingHeader: "fencing-token" });
  app.post("/orders", { config: { lock: "orders" } }, (request) => {
    return `done under token ${request.getDecorator<Lease>("lease").fencingToken}`;
  });
  app.post<{ Params: { id: string } }>("/orders/:id", {
    config: {
      lock: {
        key: (request: { params: unknown }) => `orders:${(request.params as { id: string }).id}`,
        busyStatus: 423,
      },
    },
  }, ({ params }) => params.id);
}

/** Hono: with typed variables and routes. */
export function honoTypes(locks: DistributedLock): Hono<HonoLockEnv> {
  const app = new Hono<HonoLockEnv>();
  app.use(honoLock(locks, "my-lock"));
  app.post(
    "/orders/:id",
    honoLock(locks, { key: (c) => `orders:${c.req.param("id")}`, waitMs: 2_000 }),
    (c) => c.text(`${c.req.param("id")} done under token ${c.get("lease").fencingToken}`),
  );
  type Env = { Variables: HonoLockEnv["Variables"] & { user: string } };
  const own = new Hono<Env>();
  own.post(
    "/users/:id",
    honoLock(locks, { key: (c: Context<Env>) => `users:${c.get("user")}` }),
    (c) => c.text(c.get("user") + c.get("lease").name),
  );
  return app;
}

/** fetch: the lease is optional only if the options allow requests without one. */
export function fetchTypes(locks: DistributedLock): Deno.ServeHandler {
  fetchLock(locks, { key: () => NO_LOCK })((_request, lease) => {
    // @ts-expect-error: the lease may be undefined
    return new Response(lease.name);
  });
  const declaredApart = ({ method }: Request) => method === "GET" ? NO_LOCK : "orders";
  fetchLock(locks, { key: declaredApart })(() => new Response());
  const handler = fetchLock(locks, { key: ({ url }) => url })(
    (_request, lease, info: Deno.ServeHandlerInfo) => {
      return new Response(`${lease.name} ${info.remoteAddr.transport}`);
    },
  );
  return handler;
}
