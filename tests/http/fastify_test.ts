/**
 * Behaviour that only Fastify has: late and hijacked replies, scopes, HEAD routes, hooks. The behaviour
 * that all frameworks share is in `testing/http/framework_suite.ts`.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import Fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { FileLock } from "../../file/mod.ts";
import { fastifyLock } from "../../http/fastify.ts";
import type { HoldOptions } from "../../http/mod.ts";
import { type Lease, MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

async function withApp(
  test: (app: FastifyInstance, locks: MemoryLock) => Promise<void>,
  options: HoldOptions = {},
): Promise<void> {
  await using locks = new MemoryLock();
  const app = Fastify({ forceCloseConnections: true });
  try {
    await app.register(fastifyLock, { ...options, lock: locks });
    await test(app, locks);
  } finally {
    await app.close();
  }
}

async function ask(url: string, init?: RequestInit): Promise<[status: number, text: string]> {
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const response = await fetch(url, { ...init, client });
  return [response.status, await response.text()];
}

const isHeld = async (locks: MemoryLock) => (await locks.query("key")).holders.length > 0;
const CONFIG = { config: { lock: "key" } };

/** Takes the lock of a request away. Resolves with the loss, once the request knows it. */
async function lose(locks: MemoryLock, request: FastifyRequest): Promise<Error> {
  const { signal } = request.getDecorator<Lease>("lease");
  await locks.request("key", { steal: true }, () => {});
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  return signal.reason;
}

Deno.test("fastifyLock() holds the lock until a later reply.send()", () =>
  withApp(async (app, locks) => {
    const held: boolean[] = [];
    app.get("/later", CONFIG, (_request, reply) => {
      setTimeout(async () => {
        held.push(await isHeld(locks));
        reply.send("later");
      }, 20);
    });
    app.get("/async", CONFIG, async (_request, reply) => {
      await turn();
      reply.send("async");
      held.push(await isHeld(locks));
      return reply;
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    for (let i = 0; i < 3; i++) assertEquals(await ask(`${url}/later`), [200, "later"]);
    assertEquals(await ask(`${url}/async`), [200, "async"]);
    assertEquals(held, [true, true, true, true]);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastifyLock() holds the lock until the handler ends a hijacked reply", () =>
  withApp(async (app, locks) => {
    const held: boolean[] = [];
    app.get("/at-once", CONFIG, (_request, reply) => {
      reply.hijack();
      setTimeout(async () => {
        held.push(await isHeld(locks));
        reply.raw.end("by hand");
      }, 20);
    });
    app.get("/later", CONFIG, (_request, reply) => {
      setTimeout(async () => {
        reply.hijack();
        held.push(await isHeld(locks));
        reply.raw.write("by ");
        reply.raw.end("hand");
      }, 20);
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    for (const path of ["/at-once", "/later", "/at-once"]) {
      assertEquals(await ask(url + path), [200, "by hand"]);
      await waitUntil("the lock is free", async () => !await isHeld(locks));
    }
    assertEquals(held, [true, true, true]);
  }));

Deno.test("fastifyLock() answers 503 once when the lease is lost while onSend hooks run", () =>
  withApp(async (app, locks) => {
    // Hooks of the instance run before the hooks of the plugin.
    app.addHook("onSend", async (request, _reply, payload) => {
      await lose(locks, request);
      return payload;
    });
    app.get("/", CONFIG, () => "done");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const [status, text] = await ask(url);
    assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastifyLock() answers 503 once when a handler throws, returns or sends after the lease is lost", async () => {
  const errors: unknown[] = [];
  await withApp(async (app, locks) => {
    app.get("/throw", CONFIG, async (request) => {
      throw await lose(locks, request);
    });
    app.get("/return", CONFIG, async (request) => (await lose(locks, request)).message);
    app.get("/send", CONFIG, async (request, reply) => {
      await reply.code(500).send((await lose(locks, request)).message);
    });
    app.get("/send-at-once", CONFIG, (request, reply) => {
      const { signal } = request.getDecorator<Lease>("lease");
      signal.addEventListener("abort", () => reply.code(500).send("at once"));
      void lose(locks, request);
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    for (const [i, path] of ["/throw", "/return", "/send", "/send-at-once"].entries()) {
      const [status, text] = await ask(url + path);
      assertEquals([path, status, JSON.parse(text).title], [path, 503, "Lease lost"]);
      assertEquals(errors.length, i + 1, path);
      assertEquals(await isHeld(locks), false);
    }
  }, { onError: (error) => errors.push(error) });
});

Deno.test("fastifyLock() breaks off a reply whose lease is lost, and the server goes on, when Node refuses a header of it", async () => {
  const errors: unknown[] = [];
  await withApp(async (app, locks) => {
    app.get("/", CONFIG, async (request, reply) => {
      reply.header("x-customer", "Zoë €");
      await lose(locks, request);
      return "too late";
    });
    app.get("/next", CONFIG, () => "next");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    await assertRejects(() => ask(url), TypeError);
    assertEquals(errors.map((error) => (error as { code?: string }).code), [
      "ERR_LEASE_LOST",
      "ERR_INVALID_CHAR",
    ]);
    assertEquals(await ask(`${url}/next`), [200, "next"]);
  }, { onError: (error) => errors.push(error) });
});

Deno.test("fastifyLock() sends the first answer when a handler throws or returns another one", () =>
  withApp(async (app, locks) => {
    app.get("/throws", CONFIG, (_request, reply) => {
      reply.send("sent");
      return Promise.reject(new Error("too late"));
    });
    app.get("/returns", CONFIG, (_request, reply) => {
      reply.send("sent");
      return Promise.resolve("too late");
    });
    app.get("/fails-to-send", CONFIG, async (_request, reply) => {
      const fail = () => {
        throw new Error("failed");
      };
      await reply.serializer(fail).send({});
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    for (const path of ["/throws", "/returns", "/throws"]) {
      assertEquals(await ask(url + path), [200, "sent"]);
    }
    assertEquals((await ask(`${url}/fails-to-send`))[0], 500);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastifyLock() breaks off a hijacked reply when the lease is lost", () =>
  withApp(async (app, locks) => {
    app.get("/", CONFIG, (request, reply) => {
      reply.hijack();
      const { signal } = request.getDecorator<Lease>("lease");
      // A handler that reacts to the loss too late.
      signal.addEventListener("abort", () => queueMicrotask(() => reply.raw.end("by hand")));
      void lose(locks, request);
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    await assertRejects(() => ask(url));
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastifyLock() drops the hooks' body headers from an error response", () =>
  withApp(async (app, locks) => {
    app.addHook("onSend", async (request, reply, payload) => {
      reply.headers({ "content-encoding": "gzip", etag: '"of the body"', "x-kept": "yes" });
      await lose(locks, request);
      return payload;
    });
    app.get("/", CONFIG, () => "no gzip at all");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const response = await fetch(url);
    assertEquals([response.status, (await response.json()).title], [503, "Lease lost"]);
    const { headers } = response;
    assertEquals([headers.get("etag"), headers.get("x-kept")], [null, "yes"]);
  }));

Deno.test("fastifyLock() sets status 499 when a waiting client disconnects", () =>
  withApp(async (app, locks) => {
    const statuses: number[] = [];
    // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
    app.addHook("onSend", async (_request, reply, payload) => {
      statuses.push(reply.statusCode);
      return payload;
    });
    app.get("/", CONFIG, () => "never");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    await using _lease = await locks.acquire("key");
    const controller = new AbortController();
    const asking = ask(url, { signal: controller.signal });
    await waitUntil("it waits", async () => (await locks.query("key")).waiters.length === 1);
    controller.abort();
    await assertRejects(() => asking);
    await waitUntil("it is answered", () => statuses.length === 1);
    assertEquals(statuses, [499]);
  }, { waitMs: CONDITION_BOUND_MS }));

Deno.test("fastifyLock() never runs the handler of a client that disconnects in a hook between the lock and it", () =>
  withApp(async (app, locks) => {
    const [inHook, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let handled = 0;
    const statuses: number[] = [];
    // Hooks of routes that are added after those of fastifyLock().
    app.addHook("onRoute", (route) => {
      const wait = async () => (inHook.resolve(), await gate.promise);
      route.preHandler = [route.preHandler ?? [], wait].flat();
    });
    // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
    app.addHook("onSend", async (_request, reply, payload) => {
      statuses.push(reply.statusCode);
      return payload;
    });
    app.get("/", CONFIG, () => `${++handled}`);
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const controller = new AbortController();
    const asking = ask(url, { signal: controller.signal });
    await inHook.promise;
    assertEquals(await isHeld(locks), true);
    controller.abort();
    await assertRejects(() => asking);
    await waitUntil("the lock is free", async () => !await isHeld(locks));
    gate.resolve();
    await waitUntil("it is answered", () => statuses.length === 1);
    assertEquals([statuses, handled], [[499], 0]);
    assertEquals(await ask(url), [200, "1"]);
  }));

Deno.test("fastifyLock() keeps the lock of a handler that will send later, though its first step lost the lease", async () => {
  const dir = await Deno.makeTempDir();
  {
    await using others = new FileLock({ dir });
    const lock = new FileLock({ dir, disposeTimeoutMs: CONDITION_BOUND_MS });
    const app = Fastify({ forceCloseConnections: true });
    await app.register(fastifyLock, { lock });
    const gate = Promise.withResolvers<void>();
    let disposed: PromiseLike<void> | undefined;
    app.get("/", CONFIG, (_request, reply) => {
      disposed = lock[Symbol.asyncDispose]();
      void gate.promise.then(() => reply.send("done"));
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    assertEquals((await ask(url))[0], 503);
    assertEquals(await others.tryAcquire("key"), null);
    gate.resolve();
    await disposed;
    assertEquals(await (await others.tryAcquire("key"))?.release(), true);
    await app.close();
  }
  await Deno.remove(dir, { recursive: true });
});

Deno.test("fastifyLock() acquires the lock once for an automatic HEAD route that is to be locked", () =>
  withApp(async (app, locks) => {
    const leases: (Lease | null)[] = [];
    app.get("/", { config: { lock: { key: "key", unlockedMethods: [] } } }, (request) => {
      leases.push(request.getDecorator<Lease | null>("lease"));
      return "body";
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    assertEquals(await ask(url, { method: "HEAD" }), [200, ""]);
    assertEquals(await ask(url), [200, "body"]);
    assertEquals(leases.map((lease) => lease?.name), ["key", "key"]);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastifyLock() locks only the routes of the scope it is registered in", async () => {
  await using locks = new MemoryLock();
  await using lease = await locks.acquire("key");
  const app = Fastify({ forceCloseConnections: true });
  try {
    await app.register(async (scope) => {
      await scope.register(fastifyLock, { lock: locks });
      scope.get("/inside", CONFIG, () => "inside");
    });
    app.get("/outside", CONFIG, () => "outside");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    assertEquals(await ask(`${url}/outside`), [200, "outside"]);
    assertEquals((await ask(`${url}/inside`))[0], 409);
    await lease.release();
    assertEquals(await ask(`${url}/inside`), [200, "inside"]);
  } finally {
    await app.close();
  }
});

Deno.test("fastifyLock() acquires no lock when an earlier preHandler has answered", () =>
  withApp(async (app, locks) => {
    app.get("/", {
      ...CONFIG,
      // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
      preHandler: async (_request, reply) => reply.code(401).send("who are you?"),
    }, () => "never");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    await using _lease = await locks.acquire("key");
    assertEquals(await ask(url), [401, "who are you?"]);
  }));
