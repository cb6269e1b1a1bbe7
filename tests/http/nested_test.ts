/**
 * Two locks in one request: the same key twice is a bug that is reported at once, since the request would
 * wait for itself. Requests that merely contend never get that error.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
// @ts-types="@types/express"
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { expressLock } from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock, type HonoLockEnv } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { lambdaLock } from "../../http/lambda.ts";
import { fetchLock } from "../../http/mod.ts";
import { type DistributedLock, LockSetupError, MemoryLock } from "../../mod.ts";
import { listen } from "../../testing/http/listen.ts";
import { scaled } from "../../testing/time.ts";

const WAIT_MS = scaled(3_000);

/** Sends a request through two locks with these keys. Returns the handler's result, or throws its error. */
type Nest = (lock: DistributedLock, outer: string, inner: string) => Promise<string>;

const request = () => new Request("http://localhost/", { method: "POST" });

/** Runs one request of a Koa app without a socket's timing: on a real server. */
async function koaAnswer(app: Koa): Promise<string> {
  let failure: unknown;
  app.on("error", (error) => failure = error);
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = app.listen(0, "127.0.0.1", () => resolve());
  await promise;
  try {
    const { port } = server.address() as { port: number };
    const response = await fetch(`http://127.0.0.1:${port}`, { method: "POST" });
    const text = await response.text();
    if (response.status === 500) throw failure;
    return text;
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const NESTS: Record<string, Nest> = {
  async fetchLock(lock, outer, inner) {
    const wrapped = fetchLock(lock, { key: inner, waitMs: WAIT_MS })(() => new Response("done"));
    const handler = fetchLock(lock, { key: outer, waitMs: WAIT_MS })((request) => wrapped(request));
    return await (await handler(request())).text();
  },
  async honoLock(lock, outer, inner) {
    const app = new Hono();
    let failure: unknown;
    app.onError((error, c) => {
      failure = error;
      return c.text("failed", 500);
    });
    for (const key of [outer, inner]) app.use(honoLock(lock, { key, waitMs: WAIT_MS }));
    app.post("/", (c) => c.text("done"));
    const response = await app.request("/", { method: "POST" });
    if (response.status === 500) throw failure;
    return await response.text();
  },
  async koaLock(lock, outer, inner) {
    const app = new Koa();
    for (const key of [outer, inner]) app.use(koaLock(lock, { key, waitMs: WAIT_MS }));
    app.use((ctx) => void (ctx.body = "done"));
    return await koaAnswer(app);
  },
  async expressLock(lock, outer, inner) {
    const app = express();
    for (const key of [outer, inner]) app.use(expressLock(lock, { key, waitMs: WAIT_MS }));
    app.post("/", (_req, res) => void res.send("done"));
    let failure: unknown;
    const failed: express.ErrorRequestHandler = (error, _req, res, _next) => {
      failure = error;
      res.status(500).send("failed");
    };
    await using server = await listen(app.use(failed));
    const response = await fetch(server.url, { method: "POST" });
    const text = await response.text();
    if (response.status === 500) throw failure;
    return text;
  },
  async lambdaLock(lock, outer, inner) {
    const context = { getRemainingTimeInMillis: () => WAIT_MS };
    const wrapped = lambdaLock(lock, { key: inner, waitMs: WAIT_MS })(() => "done");
    const handler = lambdaLock(lock, { key: outer, waitMs: WAIT_MS })((_event: object, context) =>
      wrapped({}, context)
    );
    return String(await handler({}, context));
  },
};

for (const [name, nest] of Object.entries(NESTS)) {
  Deno.test(`${name}() throws at once when a request locks the same key twice, and frees the lock`, async () => {
    await using locks = new MemoryLock();
    const failed = await nest(locks, "key", "key").then(() => null, (error) => error);
    assert(failed instanceof LockSetupError, String(failed));
    assertStringIncludes(failed.message, 'the lock "key" twice in one request');
    assertEquals((await locks.query("key")).holders, []);
    assertEquals(await nest(locks, "outer", "inner"), "done");
    assertEquals(await nest(locks, "key", "other"), "done");
  });

  Deno.test(`${name}() lets requests with two keys each contend without an error`, async () => {
    await using locks = new MemoryLock();
    const nests = Array.from({ length: 20 }, () => nest(locks, "outer", "inner"));
    assertEquals(await Promise.all(nests), Array(20).fill("done"));
  });
}

Deno.test("fetchLock() locks a key again once an earlier response of the same request is complete", async () => {
  await using locks = new MemoryLock();
  const under = fetchLock(locks, { key: "key", waitMs: WAIT_MS })(() => new Response("done"));
  const one = request();
  for (let i = 0; i < 3; i++) assertEquals(await (await under(one)).text(), "done");
});

Deno.test("fastifyLock() waits for its turn when one request sends another to the same route", async () => {
  await using locks = new MemoryLock();
  const app = Fastify();
  await app.register(fastifyLock, { lock: locks, waitMs: 50 });
  app.post("/", { config: { lock: "key" } }, async () => {
    // Another request, which the plugin cannot tell from any other: it is busy, not a bug of this one.
    return (await app.inject({ method: "POST", url: "/", body: {} })).statusCode;
  });
  assertEquals((await app.inject({ method: "POST", url: "/", body: {} })).body, "409");
  await app.close();
});

Deno.test("koaLock() puts the outer lease back into ctx.state.lease when the inner handler has ended", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  const names: unknown[] = [];
  const note = (ctx: Koa.Context) => names.push(ctx.state.lease?.name);
  const noting: Koa.Middleware = async (ctx, next) => {
    note(ctx);
    await next();
    note(ctx);
  };
  app.use(koaLock(locks, "outer"));
  app.use(noting);
  app.use(koaLock(locks, "inner"));
  app.use(noting);
  app.use((ctx) => void (ctx.body = "done"));
  assertEquals(await koaAnswer(app), "done");
  assertEquals(names, ["outer", "inner", "inner", "outer"]);
});

Deno.test("koaLock() leaves the inner lease to a handler that runs on after it was lost", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  const { promise, resolve } = Promise.withResolvers<string>();
  const answered = Promise.withResolvers<void>();
  app.use(koaLock(locks, "outer"));
  app.use(koaLock(locks, "inner"));
  app.use(async (ctx) => {
    await locks.request("inner", { steal: true }, () => {});
    await answered.promise;
    resolve(ctx.state.lease.name); // that of the outer lease would look good
  });
  assertStringIncludes(await koaAnswer(app), "Lease lost");
  answered.resolve();
  assertEquals(await promise, "inner");
});

Deno.test("honoLock() puts the outer lease back when the inner handler has ended", async () => {
  await using locks = new MemoryLock();
  const app = new Hono<HonoLockEnv>();
  const names: unknown[] = [];
  for (const key of ["outer", "inner"]) {
    app.use(honoLock(locks, key));
    app.use(async (c, next) => {
      names.push(c.get("lease").name);
      await next();
      names.push(c.get("lease").name);
    });
  }
  app.post("/", (c) => c.text("done"));
  assertEquals(await (await app.request("/", { method: "POST" })).text(), "done");
  assertEquals(names, ["outer", "inner", "inner", "outer"]);
});
