/**
 * Behaviour that only Express has: a handler ends with its response. The behaviour that all frameworks
 * share is in `testing/http/framework_suite.ts`.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
// @ts-types="@types/express"
import express from "express";
// @ts-types="@types/express"
import express4 from "express-4";
import { expressLock, type ExpressLockRequest } from "../../http/express.ts";
import { MemoryLock } from "../../mod.ts";
import { listen } from "../../testing/http/listen.ts";
import {
  appWith,
  ask,
  type Handler,
  isHeld,
  lose,
  untilFree,
} from "../../testing/http/express_apps.ts";
import { slowReleases } from "../../testing/http/with_leases.ts";
import { registerTest } from "../../testing/runtime/tests.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

for (const [version, make] of Object.entries({ 4: express4, 5: express })) {
  registerTest(
    `expressLock() holds the lock until a callback answers, with Express ${version}`,
    async () => {
      await using locks = new MemoryLock();
      const held: boolean[] = [];
      const app = make();
      const key = ({ params }: ExpressLockRequest) => `orders:${params.id}`;
      app.post("/orders/:id", expressLock(locks, { key }), (req, res) => {
        setTimeout(async () => {
          held.push(await isHeld(locks, "orders:42"));
          res.json({ id: req.params.id, lock: res.locals.lease.name });
        }, 20);
      });
      await using server = await listen(app);
      for (let i = 0; i < 3; i++) {
        const answer = await ask(`${server.url}/orders/42`, { method: "POST" });
        assertEquals(answer, [200, '{"id":"42","lock":"orders:42"}']);
        assertEquals(await isHeld(locks, "orders:42"), false);
      }
      assertEquals(held, [true, true, true]);
      await using _lease = await locks.acquire("orders:42");
      assertEquals((await ask(`${server.url}/orders/42`, { method: "POST" }))[0], 409);
    },
  );

  registerTest(
    `expressLock() frees the lock when an error was answered, with Express ${version}`,
    async () => {
      await using locks = new MemoryLock();
      const app = make();
      app.set("env", "test");
      app.use(expressLock(locks, "key"));
      app.get("/throws", () => {
        throw new Error("thrown");
      });
      app.get("/next", (_req, _res, next) => void setTimeout(() => next(new Error("passed")), 5));
      await using server = await listen(app);
      for (const path of ["/throws", "/next", "/nothing", "/throws"]) {
        const [status] = await ask(server.url + path);
        assertEquals(status, path === "/nothing" ? 404 : 500);
        assertEquals(await isHeld(locks), false);
      }
    },
  );

  registerTest(
    `expressLock() answers 503 when the lease is lost, and ignores what the handler writes then, with Express ${version}`,
    async () => {
      await using locks = new MemoryLock();
      let ended = 0;
      const app = make();
      app.use(expressLock(locks, "key"));
      app.use((_req, res) =>
        void lose(locks, res).then(() => {
          res.status(201).cookie("a", "b").json({ too: "late" });
          ended++;
        })
      );
      await using server = await listen(app);
      for (let i = 1; i <= 3; i++) {
        const [status, text] = await ask(server.url);
        assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
        await waitUntil("the handler has ended", () => ended === i);
      }
    },
  );
}

registerTest(
  "expressLock() sends the first answer when a handler fails or answers again before its end was sent",
  async () => {
    const handlers: Record<string, Handler> = {
      throws(_req, res) {
        res.send("first");
        throw new Error("too late");
      },
      async "throws later"(_req, res) {
        res.send("first");
        await turn();
        throw new Error("too late");
      },
      "answers again": (_req, res) => {
        res.send("first");
        res.status(500).json({ error: "a longer text than the first" });
      },
      "sets headers": (_req, res) => {
        res.send("first");
        res.status(500).set("content-length", "100");
      },
    };
    for (const method of ["GET", "POST"]) {
      for (const [name, handler] of Object.entries(handlers)) {
        await using locks = new MemoryLock();
        const { lock, open, asked } = slowReleases(locks);
        const app = appWith(lock as MemoryLock, handler);
        await using server = await listen(app);
        const body = method === "POST" ? "x".repeat(200_000) : null; // nobody reads it
        const answer = ask(server.url, { method, body });
        await waitUntil("the lock is being released", () => asked() > 0);
        for (let i = 0; i < 3; i++) assertEquals((await ask(server.url))[0], 409);
        open();
        assertEquals([name, ...await answer], [name, 200, "first"]);
        assertEquals(await isHeld(locks), false);
      }
    }
  },
);

registerTest(
  "expressLock() keeps the lock after a disconnect until the handler answers, destroys the response or its stream is over",
  async () => {
    const gate = Promise.withResolvers<void>();
    const handlers: Record<string, Handler> = {
      answers: async (_req, res) => void (await gate.promise, res.send("done")),
      destroys: async (_req, res) => void (await gate.promise, res.destroy()),
      pipes: async (_req, res) => void (await gate.promise, Readable.from(["a"]).pipe(res)),
      fails: async () => {
        await gate.promise;
        throw new Error("failed");
      },
    };
    await using locks = new MemoryLock();
    const app = express();
    app.set("env", "test");
    const entered: string[] = [];
    for (const [name, handler] of Object.entries(handlers)) {
      app.get(`/${name}`, expressLock(locks, name), async (req, res) => {
        entered.push(name);
        await handler(req, res);
      });
    }
    app.get("/piped", expressLock(locks, "piped"), (_req, res) => {
      const endless = new Readable({ read() {} });
      endless.push("a part");
      endless.pipe(res); // Node does not end the stream when the client disconnects
      entered.push("piped");
    });
    await using server = await listen(app);
    const names = [...Object.keys(handlers), "piped"];
    await Promise.all(names.map(async (name) => {
      const controller = new AbortController();
      const asking = fetch(`${server.url}/${name}`, { signal: controller.signal });
      await waitUntil(`${name} is entered`, () => entered.includes(name));
      const reader = name === "piped" && (await asking).body!.getReader();
      if (reader) await reader.read();
      controller.abort();
      await assertRejects(async () => reader ? await reader.read() : await asking);
    }));
    await untilFree(locks, "piped");
    for (let i = 0; i < 3; i++) assertEquals((await ask(server.url))[0], 404);
    for (const name of Object.keys(handlers)) {
      assertEquals([name, await isHeld(locks, name)], [name, true]);
    }
    gate.resolve();
    for (const name of Object.keys(handlers)) await untilFree(locks, name);
  },
);

registerTest(
  "expressLock() frees the lock of a handler that fails in the middle of its pieces after maxHoldMs, or when an error handler destroys the response",
  async () => {
    for (const destroys of [false, true]) {
      await using locks = new MemoryLock();
      const app = appWith(locks, async (_req, res) => {
        res.write("a part");
        await turn();
        throw new Error("failed");
      }, { maxHoldMs: destroys ? LONG_TTL_MS : scaled(500) });
      const destroy: express.ErrorRequestHandler = (error, _req, res, next) => {
        if (res.headersSent) res.destroy();
        else next(error);
      };
      if (destroys) app.use(destroy);
      await using server = await listen(app);
      await assertRejects(() => ask(server.url));
      if (!destroys) assertEquals(await isHeld(locks), true);
      await untilFree(locks);
    }
  },
);

registerTest(
  "expressLock() keeps the lock while later middleware ends the response, and sends the end through earlier middleware",
  async () => {
    await using locks = new MemoryLock();
    const log: string[] = [];
    /** Delays the end, as a session does that is saved first. */
    const delaying = (name: string): express.RequestHandler => (_req, res, next) => {
      const end = res.end as (...args: unknown[]) => express.Response;
      res.end = ((...args: unknown[]) => {
        setTimeout(async () => {
          log.push(`${name} ${await isHeld(locks)}`);
          if (!res.headersSent) res.setHeader(`x-${name}`, "yes");
          end.apply(res, args);
        }, 5);
        return res;
      }) as typeof res.end;
      next();
    };
    const app = express();
    app.use(delaying("before"), expressLock(locks, "key"), delaying("after"));
    app.get("/", (_req, res) => void res.send("done"));
    await using server = await listen(app);
    for (let i = 0; i < 3; i++) {
      const response = await fetch(server.url);
      const { headers } = response;
      assertEquals(await response.text(), "done");
      assertEquals([headers.get("x-before"), headers.get("x-after")], ["yes", "yes"]);
      assertEquals(log.splice(0), ["after true", "before false"]);
    }
  },
);

registerTest(
  "expressLock() sets status 499 and never runs the handler when a waiting client disconnects",
  async () => {
    await using locks = new MemoryLock();
    await using _lease = await locks.acquire("key");
    const statuses: number[] = [];
    let handled = 0;
    const app = express();
    app.use((_req, res, next) => {
      res.on("close", () => setTimeout(() => statuses.push(res.statusCode), 5));
      next();
    });
    app.use(expressLock(locks, { key: "key", waitMs: CONDITION_BOUND_MS }), () => void handled++);
    await using server = await listen(app);
    const controller = new AbortController();
    const asking = ask(server.url, { signal: controller.signal });
    await waitUntil("it waits", async () => (await locks.query("key")).waiters.length === 1);
    controller.abort();
    await assertRejects(() => asking);
    await waitUntil("it is over", () => statuses.length === 1);
    assertEquals([statuses, handled], [[499], 0]);
  },
);

registerTest(
  "expressLock() closes the connection and frees the lock when a handler ends with no text or bytes",
  async () => {
    await using locks = new MemoryLock();
    await using server = await listen(appWith(locks, (_req, res) => res.end(42)));
    await assertRejects(() => ask(server.url));
    await untilFree(locks);
  },
);

registerTest(
  "expressLock() answers the whole message of a key's error that is not ASCII",
  async () => {
    await using locks = new MemoryLock();
    const app = express();
    const message = "Keine Bestellung über 5 € 🙁";
    const key = () => {
      throw Object.assign(new Error(message), { statusCode: 404 });
    };
    app.use(expressLock(locks, { key }));
    await using server = await listen(app);
    const [status, text] = await ask(server.url);
    assertEquals([status, JSON.parse(text).detail], [404, message]);
  },
);
