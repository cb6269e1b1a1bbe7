/**
 * Behaviour that only Koa has: responses that bypass it, outer and inner middleware. The behaviour that
 * all frameworks share is in `testing/http/framework_suite.ts`.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
// @ts-types="@types/koa"
import Koa from "koa";
import { koaLock } from "../../http/koa.ts";
import { type Lease, MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

async function serve(app: Koa): Promise<AsyncDisposable & { readonly url: string }> {
  app.silent = true;
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = app.listen(0, "127.0.0.1", () => resolve());
  await promise;
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      server.closeAllConnections();
      await promise;
    },
  };
}

/** Takes the lock of a request away. Resolves once the request knows it. */
async function lose(locks: MemoryLock, { state }: Koa.Context): Promise<void> {
  const { signal } = state.lease as Lease;
  await locks.request("key", { steal: true }, () => {});
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
}

async function ask(url: string, init?: RequestInit): Promise<[status: number, text: string]> {
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const response = await fetch(url, { ...init, client });
  return [response.status, await response.text()];
}

Deno.test("koaLock() holds the lock until a handler with ctx.respond = false ends the response", async () => {
  await using locks = new MemoryLock();
  const held: boolean[] = [];
  const app = new Koa();
  app.use(koaLock(locks, "key"));
  app.use((ctx) => {
    ctx.respond = false;
    ctx.res.statusCode = 200;
    setTimeout(async () => {
      held.push((await locks.query("key")).holders.length > 0);
      ctx.res.end("by hand");
    }, 20);
  });
  await using server = await serve(app);
  for (let i = 0; i < 3; i++) assertEquals(await ask(server.url), [200, "by hand"]);
  assertEquals(held, [true, true, true]);
  assertEquals((await locks.query("key")).holders, []);
});

Deno.test("koaLock() frees the lock when outer middleware answers an error", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  app.use(async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      ctx.status = 418;
      ctx.body = (error as Error).message;
    }
  });
  app.use(koaLock(locks, "key"));
  app.use(() => {
    throw new Error("failed");
  });
  await using server = await serve(app);
  for (let i = 0; i < 3; i++) assertEquals(await ask(server.url), [418, "failed"]);
  await waitUntil("the lock is free", async () => (await locks.query("key")).holders.length === 0);
});

Deno.test("koaLock() holds two locks when one middleware wraps another with a different key", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  app.use(koaLock(locks, "outer"));
  app.use(koaLock(locks, "inner"));
  app.use(async (ctx) => {
    const names = await Promise.all(["outer", "inner"].map((name) => locks.query(name)));
    ctx.body = JSON.stringify(names.map(({ holders }) => holders.length > 0));
  });
  await using server = await serve(app);
  for (let i = 0; i < 3; i++) assertEquals(await ask(server.url), [200, "[true,true]"]);
  for (const name of ["outer", "inner"]) assertEquals((await locks.query(name)).holders, []);
});

Deno.test("koaLock() breaks off a response with ctx.respond = false when the lease is lost", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  const entered: string[] = [];
  app.use(koaLock(locks, "key"));
  app.use(async (ctx) => {
    ctx.respond = false;
    const { signal } = ctx.state.lease;
    const lost = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    entered.push(ctx.path);
    if (ctx.path === "/awaits") await lost;
    // A handler that reacts to the loss too late.
    lost.then(() => ctx.res.writeHead(200).end("by hand"));
  });
  await using server = await serve(app);
  for (const path of ["/awaits", "/returns"]) {
    const answer = assertRejects(() => ask(server.url + path));
    await waitUntil("the handler runs", () => entered.includes(path));
    await locks.request("key", { steal: true }, () => {});
    await answer;
  }
  assertEquals((await locks.query("key")).holders, []);
});

Deno.test("koaLock() answers 503 when the lease is lost after the handler but before Koa responds", async () => {
  await using locks = new MemoryLock();
  const errors: unknown[] = [];
  const app = new Koa();
  app.use(async (_ctx, next) => {
    await next();
    await locks.request("key", { steal: true }, () => {});
  });
  app.use(koaLock(locks, { key: "key", onError: (error) => errors.push(error) }));
  app.use((ctx) => {
    ctx.body = ctx.path === "/stream" ? Readable.from(["all ", "of it"]) : "all of it";
  });
  await using server = await serve(app);
  for (const path of ["/stream", "/text"]) {
    const [status, text] = await ask(server.url + path);
    assertEquals([path, status, JSON.parse(text).title], [path, 503, "Lease lost"]);
  }
  assertEquals(errors.length, 2);
});

Deno.test("koaLock() keeps its 503 when the handler answers while outer middleware takes its time", async () => {
  await using locks = new MemoryLock();
  const [answered, handled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const app = new Koa();
  app.use(async (_ctx, next) => {
    await next();
    answered.resolve();
    await handled.promise;
  });
  app.use(koaLock(locks, "outer"));
  app.use(koaLock(locks, "key"));
  app.use(async (ctx) => {
    await locks.request("outer", { steal: true }, () => {});
    await answered.promise;
    await locks.request("key", { steal: true }, () => {});
    await turn(); // the inner lock has given up, too
    ctx.status = 201;
    ctx.body = { shipped: true };
    handled.resolve();
  });
  await using server = await serve(app);
  assertEquals((await ask(server.url))[0], 503);
});

Deno.test("koaLock() leaves it to outer middleware to answer a loss by another error", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  app.use(async (ctx, next) => {
    await next();
    if (ctx.status === 503) ctx.status = 500;
  });
  app.use(koaLock(locks, "key"));
  app.use(() => locks.request("key", { steal: true }, () => {}));
  await using server = await serve(app);
  assertEquals((await ask(server.url))[0], 500);
});

Deno.test("koaLock() drops the handler's body headers from an error response", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  app.use(koaLock(locks, "key"));
  app.use(async (ctx) => {
    ctx.set({ "content-encoding": "gzip", "x-kept": "yes" });
    ctx.etag = "of the body";
    await lose(locks, ctx);
  });
  await using server = await serve(app);
  const response = await fetch(server.url);
  assertEquals([response.status, (await response.json()).title], [503, "Lease lost"]);
  const { headers } = response;
  assertEquals([headers.get("etag"), headers.get("x-kept")], [null, "yes"]);
});

Deno.test("koaLock() sets status 499 when a waiting client disconnects", async () => {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key");
  const statuses: number[] = [];
  const app = new Koa();
  app.use(async (ctx, next) => {
    await next();
    statuses.push(ctx.status);
  });
  app.use(koaLock(locks, { key: "key", waitMs: CONDITION_BOUND_MS }));
  await using server = await serve(app);
  const controller = new AbortController();
  const asking = ask(server.url, { signal: controller.signal });
  await waitUntil("it waits", async () => (await locks.query("key")).waiters.length === 1);
  controller.abort();
  await assertRejects(() => asking);
  await waitUntil("it is answered", () => statuses.length === 1);
  assertEquals(statuses, [499]);
});
