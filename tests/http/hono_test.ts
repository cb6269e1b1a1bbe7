/**
 * Behaviour that only Hono has: late responses, streaming helpers, its error handler, headers of outer
 * middleware. The behaviour that all frameworks share is in `testing/http/framework_suite.ts`.
 */
import { assertEquals } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { serve } from "@hono/node-server";
import { stream, streamSSE } from "hono/streaming";
import { honoLock, type HonoLockEnv } from "../../http/hono.ts";
import { MemoryLock } from "../../mod.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

type App = Hono<HonoLockEnv>;

async function withApp(
  test: (app: App, locks: MemoryLock, listen: () => string) => Promise<void>,
): Promise<void> {
  await using locks = new MemoryLock();
  const app = new Hono<HonoLockEnv>();
  let server: Deno.HttpServer<Deno.NetAddr> | undefined;
  try {
    await test(app, locks, () => {
      const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
      server = Deno.serve(options, (request) => app.fetch(request));
      return `http://127.0.0.1:${server.addr.port}`;
    });
  } finally {
    await server?.shutdown();
  }
}

const isHeld = async (locks: MemoryLock) => (await locks.query("key")).holders.length > 0;

Deno.test("honoLock() keeps its 503 when the handler answers after the lease was lost", () =>
  withApp(async (app, locks, listen) => {
    const [answered, handled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    app.use(async (_c, next) => {
      await next();
      answered.resolve();
      await handled.promise;
      await turn();
    });
    app.get("/", honoLock(locks, "key"), async (c) => {
      await locks.request("key", { steal: true }, () => {});
      await answered.promise;
      handled.resolve();
      return c.text("late");
    });
    const response = await fetch(listen());
    assertEquals([response.status, (await response.json()).title], [503, "Lease lost"]);
  }));

Deno.test("honoLock() keeps its 503 when the handler throws because of the loss", () =>
  withApp(async (app, locks, listen) => {
    app.onError((error, c) => c.text(error.message, 500));
    const entered = new Map<string, PromiseWithResolvers<void>>();
    /** The more functions await the loss, the later the handler throws. */
    const untilLost = async (signal: AbortSignal, depth: number, enter: () => void) => {
      if (depth > 0) return await untilLost(signal, depth - 1, enter);
      await turn(); // so that honoLock() listens for the loss first
      await new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        enter();
      });
    };
    app.get("/:depth", honoLock(locks, "key"), async (c) => {
      const depth = c.req.param("depth")!;
      await untilLost(c.get("lease").signal, Number(depth), entered.get(depth)!.resolve);
      return c.text("never");
    });
    const url = listen();
    for (let depth = 0; depth < 20; depth++) {
      entered.set(`${depth}`, Promise.withResolvers());
      const asking = fetch(`${url}/${depth}`);
      await entered.get(`${depth}`)!.promise;
      await locks.request("key", { steal: true }, () => {});
      const response = await asking;
      assertEquals([depth, response.status], [depth, 503]);
      assertEquals((await response.json()).title, "Lease lost");
    }
  }));

Deno.test("honoLock() keeps the headers of outer middleware in an error response", () =>
  withApp(async (app, locks, listen) => {
    const statuses: number[] = [];
    const entered = Promise.withResolvers<void>();
    app.use(cors());
    app.use(async (c, next) => {
      for (const cookie of ["a=1", "b=2"]) c.res.headers.append("set-cookie", cookie);
      await next();
    });
    app.get("/", honoLock(locks, "key"), async (c) => {
      const { signal } = c.get("lease");
      const lost = new Promise((resolve) => signal.addEventListener("abort", resolve));
      entered.resolve();
      await lost;
      return c.text("late", 200, { "cache-control": "max-age=60", etag: '"late"' });
    });
    const url = listen();
    const lost = fetch(url);
    await entered.promise;
    await locks.request("key", { steal: true }, () => {});
    await using _lease = await locks.acquire("key");
    for (const { status, headers, body } of [await lost, await fetch(url)]) {
      await body?.cancel();
      statuses.push(status);
      assertEquals(headers.get("access-control-allow-origin"), "*");
      assertEquals(headers.get("content-type"), "application/problem+json");
      assertEquals(headers.get("cache-control"), "no-store");
      assertEquals(headers.getSetCookie(), ["a=1", "b=2"]);
    }
    assertEquals(statuses, [503, 409]);
  }));

Deno.test("honoLock() holds the lock until stream() and streamSSE() have ended", () =>
  withApp(async (app, locks, listen) => {
    const held: boolean[] = [];
    app.use(honoLock(locks, "key"));
    app.get("/stream", (c) =>
      stream(c, async (out) => {
        await out.write("all ");
        await turn();
        held.push(await isHeld(locks));
        await out.write("of it");
      }));
    app.get("/events", (c) =>
      streamSSE(c, async (out) => {
        await turn();
        held.push(await isHeld(locks));
        await out.writeSSE({ data: "it" });
      }));
    const url = listen();
    assertEquals(await (await fetch(`${url}/stream`)).text(), "all of it");
    assertEquals(await isHeld(locks), false);
    assertEquals(await (await fetch(`${url}/events`)).text(), "data: it\n\n");
    assertEquals(await isHeld(locks), false);
    assertEquals(held, [true, true]);
  }));

Deno.test("honoLock() frees the lock after an error, a redirect, an empty response and a 404", () =>
  withApp(async (app, locks, listen) => {
    app.onError((error, c) => c.text(error.message, 418));
    app.use(honoLock(locks, { key: "key", fencingHeader: "Fencing-Token" }));
    app.get("/throws", () => {
      throw new Error("failed");
    });
    app.get("/redirects", () => Response.redirect("http://localhost/elsewhere"));
    app.get("/nothing", (c) => c.body(null, 204));
    const url = listen();
    const wanted = { throws: 418, redirects: 302, nothing: 204, missing: 404 };
    for (const [i, [path, status]] of Object.entries(wanted).entries()) {
      const response = await fetch(`${url}/${path}`, { redirect: "manual" });
      await response.text();
      assertEquals([path, response.status], [path, status]);
      assertEquals(response.headers.get("fencing-token"), String(i + 1));
      assertEquals(await isHeld(locks), false);
    }
  }));

Deno.test("honoLock() frees the lock when a WebSocket has opened", () =>
  withApp(async (app, locks, listen) => {
    const held: boolean[] = [];
    app.get("/", honoLock(locks, { key: "key", fencingHeader: "Fencing-Token" }), async (c) => {
      held.push(await isHeld(locks));
      const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
      socket.onmessage = ({ data }) => socket.send(`${data} yourself`);
      return response;
    });
    const socket = new WebSocket(listen().replace("http", "ws"));
    const closed = new Promise((resolve) => socket.onclose = resolve);
    const said = new Promise<string>((resolve, reject) => {
      socket.onopen = () => socket.send("hello");
      socket.onmessage = ({ data }) => resolve(data);
      socket.onerror = () => reject(new Error("The WebSocket does not open"));
    });
    assertEquals(await said, "hello yourself");
    assertEquals([...held, await isHeld(locks)], [true, false]);
    socket.close();
    await closed;
  }));

Deno.test("honoLock() frees the lock when the client leaves a stream, and @hono/node-server prints no error", async () => {
  await using locks = new MemoryLock();
  const app = new Hono<HonoLockEnv>();
  app.get("/", honoLock(locks, "key"), (c) =>
    streamSSE(c, async (events) => {
      while (!events.aborted) {
        await events.writeSSE({ data: "event" });
        await turn();
      }
    }));
  const printed: unknown[][] = [];
  const ours = globalThis.console;
  const { error } = ours;
  ours.error = (...values) => void printed.push(values);
  const listening = Promise.withResolvers<number>();
  const options = { fetch: app.fetch, port: 0, hostname: "127.0.0.1" };
  const server = serve(options, ({ port }) => listening.resolve(port));
  try {
    const client = new AbortController();
    const url = `http://127.0.0.1:${await listening.promise}`;
    const response = await fetch(url, { signal: client.signal });
    const reader = response.body!.getReader();
    await reader.read();
    client.abort();
    await reader.read().catch(() => {});
    await waitUntil("the lock is free", async () => !await isHeld(locks));
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    await closed.promise;
    assertEquals(printed, []);
  } finally {
    ours.error = error;
  }
});
