/**
 * Routes that were added before the plugin had loaded: they must never run without their lock.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import Fastify, { type FastifyInstance } from "fastify";
import { fastifyLock, NO_LOCK } from "../../http/fastify.ts";
import { LockSetupError, MemoryLock } from "../../mod.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

const CONFIG = { config: { lock: "key" } };

/** Adds a locked route; `runs` has how many calls of its handler were running at each call. */
function addRoute(app: FastifyInstance, url: string, runs: number[]): void {
  let running = 0;
  app.get(url, CONFIG, async () => {
    runs.push(++running);
    for (let i = 0; i < 20; i++) await turn();
    running--;
    return "done";
  });
}

async function ask(app: FastifyInstance, url: string, method: "GET" | "HEAD" = "GET") {
  const { statusCode, body } = await app.inject({ method, url });
  return { statusCode, body };
}

Deno.test("fastifyLock() answers 500 and never runs a route that was added before it had loaded", async () => {
  for (const isAwaited of [false, true]) {
    await using locks = new MemoryLock();
    const app = Fastify();
    const [early, late]: [number[], number[]] = [[], []];
    if (isAwaited) {
      addRoute(app, "/early", early);
      await app.register(fastifyLock, { lock: locks, waitMs: CONDITION_BOUND_MS });
    } else {
      app.register(fastifyLock, { lock: locks, waitMs: CONDITION_BOUND_MS });
      addRoute(app, "/early", early);
    }
    app.get("/none", { config: { lock: NO_LOCK } }, () => "done");
    app.get("/health", () => "well");
    app.register((scope) => addRoute(scope, "/late", late));
    await app.ready();
    for (const method of ["GET", "HEAD"] as const) {
      const answers = await Promise.all([1, 2, 3, 4, 5].map(() => ask(app, "/early", method)));
      assertEquals(answers.map(({ statusCode }) => statusCode), Array(5).fill(500));
      if (method === "GET") {
        assertStringIncludes(answers[0]!.body, "await app.register(fastifyLock");
      }
    }
    const answers = await Promise.all([1, 2, 3, 4, 5].map(() => ask(app, "/late")));
    assertEquals(answers.map(({ statusCode }) => statusCode), Array(5).fill(200));
    assertEquals([early, late], [[], [1, 1, 1, 1, 1]]);
    assertEquals(await ask(app, "/health"), { statusCode: 200, body: "well" });
    assertEquals((await ask(app, "/none")).statusCode, 200);
    assertEquals((await ask(app, "/missing")).statusCode, 404);
    await app.close();
  }
});

Deno.test("fastifyLock() refuses to start when all routes were added before it had loaded", async () => {
  const runs: number[] = [];
  const setups: ((app: FastifyInstance, locks: MemoryLock) => unknown)[] = [
    (app, lock) => {
      app.register(fastifyLock, { lock });
      addRoute(app, "/", runs);
    },
    async (app, lock) => {
      addRoute(app, "/", runs);
      await app.register(fastifyLock, { lock });
    },
    async (app, lock) => {
      await app.register((scope) => addRoute(scope, "/", runs)); // the hooks of `app` do not see it
      await app.register(fastifyLock, { lock });
    },
  ];
  for (const setUp of setups) {
    await using locks = new MemoryLock();
    const app = Fastify();
    await setUp(app, locks);
    const text = "await app.register(fastifyLock";
    await assertRejects(async () => void await app.ready(), LockSetupError, text);
    await app.close();
  }
});

Deno.test("fastifyLock() starts without a route, and with routes in other scopes", async () => {
  await using locks = new MemoryLock();
  const empty = Fastify();
  await empty.register(fastifyLock, { lock: locks });
  await empty.ready();
  await empty.close();
  const app = Fastify();
  app.get("/health", () => "well");
  await app.register(async (scope) => {
    await scope.register(fastifyLock, { lock: locks });
    addRoute(scope, "/", []);
  });
  assertEquals((await ask(app, "/")).statusCode, 200);
  assertEquals((await ask(app, "/health")).body, "well");
  await app.close();
});
