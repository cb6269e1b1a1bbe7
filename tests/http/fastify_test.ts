/**
 * What only Fastify has: replies that come later or by hand, scopes, HEAD routes, hooks.
 */
import { assertEquals } from "@std/assert";
import Fastify, { type FastifyInstance } from "fastify";
import { fastifyLock } from "../../http/fastify.ts";
import { type Lease, MemoryLock } from "../../mod.ts";
import { pause, waitUntil } from "../servers/wait.ts";

async function withApp(
  test: (app: FastifyInstance, locks: MemoryLock) => Promise<void>,
): Promise<void> {
  await using locks = new MemoryLock();
  const app = Fastify({ forceCloseConnections: true });
  try {
    await app.register(fastifyLock, { lock: locks });
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

const isHeld = async (locks: MemoryLock) => (await locks.query("key")).held !== null;
const CONFIG = { config: { lock: "key" } };

Deno.test("fastify: a reply that is sent later holds the lock until then", () =>
  withApp(async (app, locks) => {
    const held: boolean[] = [];
    app.get("/later", CONFIG, (_request, reply) => {
      setTimeout(async () => {
        held.push(await isHeld(locks));
        reply.send("later");
      }, 20);
    });
    app.get("/async", CONFIG, async (_request, reply) => {
      await pause(20);
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

Deno.test("fastify: a hijacked reply holds the lock until the handler ends it", () =>
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
      await waitUntil("the lock is free", async () => !await isHeld(locks), 5_000);
    }
    assertEquals(held, [true, true, true]);
  }));

Deno.test("fastify: a loss while hooks prepare the answer gives one answer", () =>
  withApp(async (app, locks) => {
    // An instance's hooks run before ours.
    app.addHook("onSend", async (_request, _reply, payload) => {
      await pause(100);
      return payload;
    });
    const lock = { key: "key", maxHoldMs: 50 };
    app.get("/", { config: { lock } }, () => "done");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const [status, text] = await ask(url);
    assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastify: the automatic HEAD route takes the lock once", () =>
  withApp(async (app, locks) => {
    const leases: (Lease | null)[] = [];
    app.get("/", CONFIG, (request) => {
      leases.push(request.getDecorator<Lease | null>("lease"));
      return "body";
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    assertEquals(await ask(url, { method: "HEAD" }), [200, ""]);
    assertEquals(await ask(url), [200, "body"]);
    assertEquals(leases.map((lease) => lease?.name), ["key", "key"]);
    assertEquals(await isHeld(locks), false);
  }));

Deno.test("fastify: a plugin in a scope concerns that scope", async () => {
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

Deno.test("fastify: what comes before the lock ends without it", () =>
  withApp(async (app, locks) => {
    app.get("/", {
      ...CONFIG,
      // deno-lint-ignore require-await -- Fastify takes hooks that are async, or call back
      preHandler: async (_request, reply) => reply.code(401).send("who are you?"),
    }, () => "never");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    await using _lease = await locks.acquire("key");
    assertEquals(await ask(url), [401, "who are you?"]);
  }));
