/**
 * What only Koa has: responses that go past it, middleware around and behind.
 */
import { assertEquals } from "@std/assert";
// @ts-types="@types/koa"
import Koa from "koa";
import { koaLock } from "../../http/koa.ts";
import { MemoryLock } from "../../mod.ts";
import { waitUntil } from "../servers/wait.ts";

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

async function ask(url: string): Promise<[status: number, text: string]> {
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const response = await fetch(url, { client });
  return [response.status, await response.text()];
}

Deno.test("koa: ctx.respond = false holds the lock until the response is ended by hand", async () => {
  await using locks = new MemoryLock();
  const held: boolean[] = [];
  const app = new Koa();
  app.use(koaLock(locks, "key"));
  app.use((ctx) => {
    ctx.respond = false;
    ctx.res.statusCode = 200;
    setTimeout(async () => {
      held.push((await locks.query("key")).held !== null);
      ctx.res.end("by hand");
    }, 20);
  });
  await using server = await serve(app);
  for (let i = 0; i < 3; i++) assertEquals(await ask(server.url), [200, "by hand"]);
  assertEquals(held, [true, true, true]);
  assertEquals((await locks.query("key")).held, null);
});

Deno.test("koa: outer middleware that answers an error holds the lock until then", async () => {
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
  await waitUntil("the lock is free", async () => (await locks.query("key")).held === null);
});

Deno.test("koa: a second lock for another key, around the first", async () => {
  await using locks = new MemoryLock();
  const app = new Koa();
  app.use(koaLock(locks, "outer"));
  app.use(koaLock(locks, "inner"));
  app.use(async (ctx) => {
    const names = await Promise.all(["outer", "inner"].map((name) => locks.query(name)));
    ctx.body = JSON.stringify(names.map(({ held }) => held !== null));
  });
  await using server = await serve(app);
  for (let i = 0; i < 3; i++) assertEquals(await ask(server.url), [200, "[true,true]"]);
  for (const name of ["outer", "inner"]) assertEquals((await locks.query(name)).held, null);
});
