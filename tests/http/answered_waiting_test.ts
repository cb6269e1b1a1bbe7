/** Requests that something else answers before their handler runs, such as a time limit of the server. */
import { assertEquals } from "@std/assert";
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  type Type,
  UseInterceptors,
} from "@nestjs/common";
// @ts-types="@types/express"
import express from "express";
import express4 from "express-4";
import Fastify from "fastify";
// @ts-types="@types/koa"
import Koa from "koa";
import type { ServerResponse } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { expressLock } from "../../http/express.ts";
import { fastifyLock } from "../../http/fastify.ts";
import { koaLock } from "../../http/koa.ts";
import { Lock } from "../../http/nestjs.ts";
import { type DistributedLock, type Lease, MemoryLock } from "../../mod.ts";
import { ask } from "../../testing/http/express_apps.ts";
import { listen } from "../../testing/http/listen.ts";
import { decorate, type NestPlatform, serveNest } from "../../testing/http/nest_server.ts";
import { withLeases } from "../../testing/http/with_leases.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

/** A request must not leave the queue because its time is over. */
const OPTIONS = { key: "key", waitMs: 2 * CONDITION_BOUND_MS };

/**
 * Starts a server with one route under a lock.
 *
 * @param onRequest Called with the response of each request, before the lock.
 */
type Serve = (
  lock: DistributedLock,
  onRequest: (response: ServerResponse) => void,
  handle: () => string,
  onFailure?: (error: unknown) => void,
) => Promise<{ readonly url: string } & AsyncDisposable>;

const expressServer =
  (make: typeof express): Serve => async (lock, onRequest, handle, onFailure) => {
    const app = make();
    app.use((_req, res, next) => (onRequest(res), next()));
    app.get("/", expressLock(lock, OPTIONS), (_req, res) => void res.send(handle()));
    const failed: express.ErrorRequestHandler = (error, _req, _res, _next) => onFailure?.(error);
    app.use(failed);
    return await listen(app);
  };

const nestServer = (platform: NestPlatform): Serve => async (lock, onRequest, handle) => {
  class Routes {
    get() {
      return handle();
    }
  }
  Controller()(Routes);
  const around = {
    intercept(context: ExecutionContext, next: CallHandler) {
      const response = context.switchToHttp().getResponse();
      onRequest(response.raw ?? response);
      return next.handle();
    },
  };
  decorate(Routes as Type, "get", Get(), UseInterceptors(around), Lock(OPTIONS));
  return await serveNest(lock, [Routes], platform);
};

const SERVERS: Record<string, Serve> = {
  "expressLock()": expressServer(express),
  "expressLock() on Express 4": expressServer(express4 as unknown as typeof express),
  async "koaLock()"(lock, onRequest, handle) {
    const app = new Koa();
    app.use((ctx, next) => (onRequest(ctx.res), next()));
    app.use(koaLock(lock, OPTIONS));
    app.use((ctx) => void (ctx.body = handle()));
    return await listen(app.callback());
  },
  async "fastifyLock()"(lock, onRequest, handle) {
    const app = Fastify({ forceCloseConnections: true });
    app.addHook("onRequest", (_request, reply, done) => (onRequest(reply.raw), done()));
    await app.register(fastifyLock, { lock, waitMs: OPTIONS.waitMs });
    app.get("/", { config: { lock: "key" } }, () => handle());
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return { url, [Symbol.asyncDispose]: () => app.close() };
  },
  "@Lock() on Express": nestServer("express"),
  "@Lock() on Fastify": nestServer("fastify"),
};

function answerNow(response: ServerResponse): void {
  response.statusCode = 503;
  response.end("too slow");
}

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name} leaves the queue and never runs the handler when the request is answered while it waits`, async () => {
    await using locks = new MemoryLock();
    const responses: ServerResponse[] = [];
    let handled = 0;
    const onRequest = (response: ServerResponse) => void responses.push(response);
    await using server = await serve(locks, onRequest, () => `${++handled}`);
    const held = await locks.acquire("key");
    const asking = ask(server.url);
    await waitUntil("it waits", async () => (await locks.query("key")).waiterCount === 1);
    answerNow(responses[0]!);
    assertEquals(responses[0]!.statusCode, 503);
    assertEquals(await asking, [503, "too slow"]);
    await waitUntil("it has left", async () => (await locks.query("key")).waiterCount === 0);
    assertEquals(responses[0]!.statusCode, 503, "the status that is logged");
    await held.release();
    assertEquals(await (await locks.tryAcquire("key"))?.release(), true);
    assertEquals(handled, 0);
    assertEquals(await ask(server.url), [200, "1"]);
  });

  Deno.test(`${name} sends no answer of its own when the request is answered while it asks how long to be busy`, async () => {
    await using locks = new MemoryLock();
    const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const busy: DistributedLock = {
      ...withLeases(locks, (lease) => lease),
      capabilities: { ...locks.capabilities, endsBy: "ttl" }, // only then it asks
      tryAcquire: () => Promise.resolve(null),
      async query(name) {
        asked.resolve();
        await gate.promise;
        return await locks.query(name);
      },
    };
    let response: ServerResponse;
    const failures: unknown[] = [];
    const onRequest = (given: ServerResponse) => void (response = given);
    await using server = await serve(busy, onRequest, () => "never", (e) => failures.push(e));
    const asking = ask(server.url);
    await asked.promise;
    answerNow(response!);
    assertEquals(await asking, [503, "too slow"]);
    gate.resolve();
    for (let i = 0; i < 3; i++) await turn();
    assertEquals([response!.statusCode, failures], [503, []]);
  });

  Deno.test(`${name} never runs the handler without its lock when the request is answered just after the grant`, async () => {
    const outcomes = new Set<string>();
    for (let turns = 0; turns < 20; turns++) {
      await using locks = new MemoryLock();
      let response: ServerResponse;
      let lease: Lease;
      let outcome = "not run";
      const watched = withLeases(locks, (granted) => {
        lease = granted;
        void (async () => {
          for (let turn = 0; turn < turns; turn++) await null;
          if (outcome === "not run") answerNow(response);
        })();
        return granted;
      });
      const onRequest = (given: ServerResponse) => void (response = given);
      await using server = await serve(watched, onRequest, () => {
        outcome = lease.remainingMs > 0 ? "run under the lock" : "run without it";
        return "done";
      });
      const answer = await ask(server.url);
      if (outcome === "not run") assertEquals(answer, [503, "too slow"]);
      await waitUntil("it is free", async () => (await locks.query("key")).holders.length === 0);
      outcomes.add(outcome);
    }
    assertEquals([...outcomes].sort(), ["not run", "run under the lock"]);
  });
}

Deno.test("expressLock() never runs the handler when the request is answered while its key is looked up", async () => {
  await using locks = new MemoryLock();
  let handled = 0;
  const app = express();
  app.get(
    "/",
    expressLock<express.Request>(locks, {
      key: async ({ res }) => {
        await null;
        answerNow(res!);
        return "key";
      },
    }),
    (_req, res) => void res.json({ handled: ++handled }),
  );
  await using server = await listen(app);
  assertEquals(await ask(server.url), [503, "too slow"]);
  await waitUntil("it is free", async () => (await locks.query("key")).holders.length === 0);
  assertEquals(handled, 0);
});

Deno.test("expressLock() gives no second answer when its key is refused after the request was answered", async () => {
  for (const isThrown of [true, false]) {
    await using locks = new MemoryLock();
    const key = async ({ res }: express.Request) => {
      await null;
      answerNow(res!);
      if (isThrown) throw Object.assign(new Error("no such order"), { statusCode: 404 });
      return ""; // which no lock can have
    };
    const failures: unknown[] = [];
    const app = express();
    app.get("/", expressLock<express.Request>(locks, { key }));
    const onError: express.ErrorRequestHandler = (error, _req, _res, _next) => {
      failures.push(error);
    };
    app.use(onError);
    await using server = await listen(app);
    assertEquals(await ask(server.url), [503, "too slow"]);
    await turn();
    assertEquals(failures, []);
  }
});

Deno.test("expressLock() runs the handler without the fencing header when the headers were sent before the grant", async () => {
  await using locks = new MemoryLock();
  const app = express();
  app.use((_req, res, next) => {
    res.flushHeaders(); // as a heartbeat does
    next();
  });
  app.get(
    "/",
    expressLock(locks, { key: "key", fencingHeader: "Fencing-Token" }),
    (_req, res) => void res.end("done"),
  );
  await using server = await listen(app);
  assertEquals(await ask(server.url), [200, "done"]);
  await waitUntil("it is free", async () => (await locks.query("key")).holders.length === 0);
});
