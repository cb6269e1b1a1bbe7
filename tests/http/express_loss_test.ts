/** Handlers of Express that run on after their lease was lost. */
import { assertEquals, assertRejects } from "@std/assert";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as turn } from "node:timers/promises";
// @ts-types="@types/express"
import express from "express";
import { FileLock } from "../../file/mod.ts";
import { expressLock } from "../../http/express.ts";
import { type LockError, MemoryLock } from "../../mod.ts";
import { listen } from "../../testing/http/listen.ts";
import { ask, type Handler, isHeld, lose, untilFree } from "../../testing/http/express_apps.ts";
import { registerTest } from "../../testing/runtime/tests.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

/** Calls of handlers after their lease was lost and the request was answered. */
const LATE: Record<string, Handler> = {
  json: (_req, res) => res.status(201).json({ too: "late" }),
  redirect: (_req, res) => res.cookie("a", "b").redirect("/elsewhere"),
  writeHead: (_req, res) => res.writeHead(201, { "x-late": "yes" }).end("too late"),
  pieces: (_req, res) => {
    res.setHeader("x-late", "yes");
    res.flushHeaders();
    res.write("too ");
    res.end("late");
  },
  "write with callbacks": async (_req, res) => {
    await new Promise<unknown>((resolve) => res.write("too ", resolve));
    await new Promise<unknown>((resolve) => res.end("late", () => resolve(undefined)));
  },
  sendFile: (_req, res) => res.sendFile(new URL(import.meta.url).pathname),
  pipe: (_req, res) => Readable.from(["too ", "late"]).pipe(res),
  pipeline: (_req, res) => pipeline(Readable.from(["too ", "late"]), res),
  "a broken pipeline": (_req, res) => {
    const broken = async function* () {
      yield "too ";
      await turn();
      throw new Error("broken");
    };
    return pipeline(Readable.from(broken()), res);
  },
  "an error": () => {
    throw new Error("too late");
  },
  "an error after an answer": (_req, res) => {
    res.send("too late");
    throw new Error("much too late");
  },
  destroy: (_req, res) => res.destroy(),
};

/** Sends requests on one connection, which must stay open. */
function askOn(agent: Agent, url: string, path: string): Promise<[status: number, text: string]> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, url), { agent }, (response: IncomingMessage) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => text += chunk);
      response.on("end", () => resolve([response.statusCode!, text])).on("error", reject);
    });
    sent.on("error", reject).end();
  });
}

for (const handlesErrors of [false, true]) {
  registerTest(
    `expressLock() keeps the connection and its 503 whatever a handler does after the loss${
      handlesErrors ? ", with an error handler of the user" : ""
    }`,
    async () => {
      await using locks = new MemoryLock();
      const ended: string[] = [];
      const seen: unknown[] = [];
      const ports = new Set<number | undefined>();
      const app = express();
      app.set("env", "test");
      app.use((req, res, next) => {
        ports.add(req.socket.remotePort);
        res.on("finish", () => seen.push([res.headersSent, res.statusCode])); // as loggers do
        next();
      });
      for (const [name, handler] of Object.entries(LATE)) {
        const lock = expressLock(locks, name);
        app.get(`/${encodeURIComponent(name)}`, lock, async (req, res) => {
          await lose(locks, res);
          try {
            await handler(req, res);
          } finally {
            ended.push(name);
          }
        });
      }
      app.get("/next", (_req, res) => void setTimeout(() => res.send("next"), 20));
      const failed: express.ErrorRequestHandler = (error, _req, res, next) => {
        if (res.headersSent) return next(error);
        res.status(500).send("failed");
      };
      if (handlesErrors) app.use(failed);
      await using server = await listen(app);
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (const name of Object.keys(LATE)) {
        const [status, text] = await askOn(agent, server.url, `/${encodeURIComponent(name)}`);
        assertEquals([name, status, JSON.parse(text).title], [name, 503, "Lease lost"]);
        assertEquals(seen.pop(), [true, 503], name);
        assertEquals([name, ...await askOn(agent, server.url, "/next")], [name, 200, "next"]);
        await waitUntil(`the handler ${name} has ended`, () => ended.includes(name));
      }
      assertEquals(ports.size, 1, "the connection stays open");
      agent.destroy();
    },
  );
}

registerTest("expressLock() answers 503 past later middleware when the lease is lost", async () => {
  await using locks = new MemoryLock();
  const app = express();
  const spoiled: string[] = [];
  app.use((_req, res, next) => (res.setHeader("x-kept", "yes"), next()));
  app.use(expressLock(locks, { key: "key", maxHoldMs: 30 }));
  app.use((_req, res, next) => {
    res.end = () => (spoiled.push("end"), res);
    const { writeHead } = res;
    res.writeHead = ((...args: unknown[]) => {
      spoiled.push("writeHead");
      return (writeHead as (...args: unknown[]) => express.Response).apply(res, args);
    }) as typeof res.writeHead;
    res.set({ "content-encoding": "gzip", etag: '"of the body"' });
    next();
  });
  app.use(() => {});
  await using server = await listen(app);
  const response = await fetch(server.url);
  assertEquals([response.status, (await response.json()).title], [503, "Lease lost"]);
  const { headers } = response;
  assertEquals([headers.get("etag"), headers.get("x-kept"), spoiled], [null, "yes", []]);
});

registerTest(
  "expressLock() breaks off a response whose lease is lost, and the server goes on, when earlier middleware throws",
  async () => {
    await using locks = new MemoryLock();
    const errors: unknown[] = [];
    const failure = new Error("Cannot write the headers");
    const ended = Promise.withResolvers<number>();
    const app = express();
    app.use((req, res, next) => {
      const fail = () => {
        throw failure;
      };
      if (req.path === "/") res.writeHead = fail;
      next();
    });
    app.use(expressLock(locks, { key: "key", onError: (error) => void errors.push(error) }));
    app.get("/", async (_req, res) => {
      await lose(locks, res);
      res.status(201).json({ too: "late" });
      ended.resolve(res.statusCode);
    });
    app.get("/next", (_req, res) => void res.send("next"));
    await using server = await listen(app);
    await assertRejects(() => ask(server.url), TypeError);
    assertEquals(await ended.promise, 503, "what the handler writes has no effect");
    assertEquals([(errors[0] as LockError).code, ...errors.slice(1)], ["ERR_LEASE_LOST", failure]);
    assertEquals(await ask(`${server.url}/next`), [200, "next"]);
  },
);

registerTest(
  "expressLock() holds two locks of one request, and keeps both until the handler ends when the inner lease is lost",
  async () => {
    await using locks = new MemoryLock();
    const gate = Promise.withResolvers<void>();
    const router = express.Router({ mergeParams: true });
    router.use(expressLock(locks, { key: "inner", maxHoldMs: scaled(1_000) }));
    router.get("/quick", async (_req, res) => {
      const names = await Promise.all(["outer", "inner"].map((name) => isHeld(locks, name)));
      res.json([...names, res.locals.lease.name]);
    });
    router.get("/slow", async (_req, res) => {
      await gate.promise;
      res.send("too late");
    });
    const app = express();
    app.use("/orders/:id", expressLock(locks, { key: "outer", maxHoldMs: LONG_TTL_MS }), router);
    await using server = await listen(app);
    for (let i = 0; i < 3; i++) {
      assertEquals(await ask(`${server.url}/orders/42/quick`), [200, '[true,true,"inner"]']);
      for (const name of ["outer", "inner"]) assertEquals(await isHeld(locks, name), false);
    }
    const [status, text] = await ask(`${server.url}/orders/42/slow`);
    assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
    assertEquals([await isHeld(locks, "outer"), await isHeld(locks, "inner")], [true, false]);
    gate.resolve();
    await untilFree(locks, "outer");
  },
);

registerTest(
  "expressLock() keeps an inner lock until the handler ends when the outer lease is lost",
  async () => {
    await using locks = new MemoryLock();
    const gate = Promise.withResolvers<void>();
    const app = express();
    app.use(expressLock(locks, "outer"));
    app.use(expressLock(locks, "inner"));
    app.use(async (_req, res) => {
      await locks.request("outer", { steal: true }, () => {});
      await gate.promise;
      res.send("too late");
    });
    await using server = await listen(app);
    assertEquals((await ask(server.url))[0], 503);
    assertEquals((await ask(server.url))[0], 409);
    assertEquals(await isHeld(locks, "inner"), true);
    gate.resolve();
    await untilFree(locks, "inner");
  },
);

registerTest(
  "expressLock() keeps a lock that is disposed until a handler that has begun to write ends",
  async () => {
    const dir = await mkdtemp(`${tmpdir()}/holdfast-`);
    await using others = new FileLock({ dir });
    const locks = new FileLock({ dir, disposeTimeoutMs: CONDITION_BOUND_MS });
    const gate = Promise.withResolvers<void>();
    const app = express();
    app.use(expressLock(locks, "key"), async (_req, res) => {
      res.write("a part");
      await gate.promise;
      res.end("the rest");
    });
    await using server = await listen(app);
    const response = await fetch(server.url);
    const disposed = locks[Symbol.asyncDispose]();
    await assertRejects(() => response.text());
    assertEquals((await ask(server.url))[0], 503);
    assertEquals(await others.tryAcquire("key"), null);
    gate.resolve();
    await disposed;
    assertEquals(await (await others.tryAcquire("key"))?.release(), true);
    await rm(dir, { recursive: true });
  },
);
