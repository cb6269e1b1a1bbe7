/** HEAD and OPTIONS run without the lock unless that is asked for; and the short form of every part. */
import { assertEquals, assertThrows } from "@std/assert";
// @ts-types="@types/express"
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
// @ts-types="@types/koa"
import Koa from "koa";
import { expressLock } from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { honoLock } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { lambdaLock } from "../../http/lambda.ts";
import { fetchLock } from "../../http/mod.ts";
import { type DistributedLock, MemoryLock } from "../../mod.ts";
import { listen } from "../../testing/http/listen.ts";

interface Options {
  readonly unlockedMethods?: readonly string[];
}

/** Returns the status of the answer to a method. Calls `whenSetUp` before it asks. */
type Ask = (
  lock: DistributedLock,
  method: string,
  options: Options,
  whenSetUp?: () => void,
) => Promise<number>;

const METHODS = ["GET", "HEAD", "OPTIONS", "POST"];

const ASKS: Record<string, Ask> = {
  async koaLock(lock, method, options, whenSetUp = () => {}) {
    const app = new Koa();
    app.use(koaLock(lock, { ...options, key: "key" }));
    app.use((ctx) => void (ctx.body = "done"));
    whenSetUp();
    const { promise, resolve } = Promise.withResolvers<void>();
    const server = app.listen(0, "127.0.0.1", () => resolve());
    await promise;
    const { port } = server.address() as { port: number };
    const response = await fetch(`http://127.0.0.1:${port}`, { method });
    await response.text();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    return response.status;
  },
  async expressLock(lock, method, options, whenSetUp = () => {}) {
    const app = express();
    app.all(
      "/",
      expressLock(lock, { ...options, key: "key" }),
      (_req, res) => void res.send("done"),
    );
    whenSetUp();
    await using server = await listen(app);
    const response = await fetch(server.url, { method });
    await response.text();
    return response.status;
  },
  async honoLock(lock, method, options, whenSetUp = () => {}) {
    const app = new Hono();
    app.use(honoLock(lock, { ...options, key: "key" }));
    app.all("/", (c) => c.text("done"));
    whenSetUp();
    return (await app.request("/", { method })).status;
  },
  async fastifyLock(lock, method, options, whenSetUp = () => {}) {
    const app = Fastify();
    await app.register(fastifyLock, { ...options, lock });
    whenSetUp();
    app.get("/", { config: { lock: "key" } }, () => "done"); // Fastify adds the HEAD route
    const others = { url: "/", method: ["OPTIONS", "POST"], config: { lock: "key" } };
    app.route({ ...others, handler: () => "done" });
    const { statusCode } = await app.inject({ method: method as "GET", url: "/" });
    await app.close();
    return statusCode;
  },
};

for (const [name, ask] of Object.entries(ASKS)) {
  Deno.test(`${name}() runs HEAD and OPTIONS without the lock, and every method in unlockedMethods`, async () => {
    await using locks = new MemoryLock();
    await using _lease = await locks.acquire("key");
    const statuses = (options: Options) =>
      Promise.all(METHODS.map((method) => ask(locks, method, options)));
    assertEquals(await statuses({}), [409, 200, 200, 409]);
    assertEquals(await statuses({ unlockedMethods: [] }), [409, 409, 409, 409]);
    assertEquals(await statuses({ unlockedMethods: ["GET", "HEAD"] }), [200, 200, 409, 409]);
  });
}

for (const [name, ask] of Object.entries(ASKS)) {
  Deno.test(`${name}() locks a method that is added to the list of unlockedMethods later`, async () => {
    await using locks = new MemoryLock();
    await using _lease = await locks.acquire("key");
    const unlockedMethods = ["HEAD"];
    const add = () => void unlockedMethods.push("POST");
    assertEquals(await ask(locks, "POST", { unlockedMethods }, add), 409);
  });
}

Deno.test("koaLock() and honoLock() throw when unlockedMethods has no names of methods", async () => {
  await using locks = new MemoryLock();
  for (const unlockedMethods of ["GET", [1], ["get"], null] as unknown as string[][]) {
    const options = { key: "key", unlockedMethods };
    assertThrows(() => koaLock(locks, options), TypeError, "'unlockedMethods'");
    assertThrows(() => honoLock(locks, options), TypeError, "'unlockedMethods'");
  }
});

Deno.test("fetchLock() and lambdaLock() take a key alone, and lock every method", async () => {
  await using locks = new MemoryLock();
  const names: string[] = [];
  const handler = fetchLock(locks, "key")((_request, lease) => {
    names.push(lease.name);
    return new Response("done");
  });
  for (const method of METHODS) await handler(new Request("http://localhost/", { method }));
  assertEquals(names, METHODS.map(() => "key"));
  const context = { getRemainingTimeInMillis: () => 3_000 };
  assertEquals(
    await lambdaLock(locks, "key")((_event, _context, { name }) => name)({}, context),
    "key",
  );
});
