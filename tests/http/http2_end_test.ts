/** Over HTTP/2 a client must not take a part of a response for the whole: it is reset with an error. */
import { assert, assertEquals } from "@std/assert";
import { type ClientHttp2Session, constants, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { connectHttp2 } from "../../testing/http/http2_client.ts";
import { Readable } from "node:stream";
import Fastify, { type FastifyServerOptions } from "fastify";
// @ts-types="@types/koa"
import Koa from "koa";
import { fastifyLock } from "../../http/fastify.ts";
import { koaLock } from "../../http/koa.ts";
import { MemoryLock } from "../../mod.ts";
import type { Serve } from "../../testing/http/one_route.ts";
import { slowReleases } from "../../testing/http/with_leases.ts";
import { untilShown } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

/** Sends a part, and no end. */
async function* endless(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield new TextEncoder().encode("a part");
  await new Promise(() => {});
}

const SERVERS: Record<string, Serve> = {
  async koaLock(lock) {
    const app = new Koa();
    app.silent = true;
    app.use(koaLock(lock, "key"));
    app.use((ctx) => {
      ctx.set("content-type", "text/plain");
      ctx.body = Readable.from(endless());
    });
    const server = createServer(app.callback() as never);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    return {
      url: `http://127.0.0.1:${port}`,
      stop: () => new Promise((resolve) => void server.close(resolve)),
    };
  },
  async fastifyLock(lock) {
    const app = Fastify({ http2: true, forceCloseConnections: true } as FastifyServerOptions);
    await app.register(fastifyLock, { lock });
    app.get("/", { config: { lock: "key" } }, () => Readable.from(endless()));
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  },
};

interface Ending {
  readonly status: number;
  readonly text: string;
  readonly code: number;
}

/** Sends another request on a connection: the server has sent all that it could before. */
function statusOf(session: ClientHttp2Session, method: string): Promise<unknown> {
  const stream = session.request({ ":path": "/", ":method": method });
  stream.resume().end();
  return new Promise((resolve, reject) => {
    stream.on("response", (headers) => resolve(headers[":status"])).on("error", reject);
  });
}

/** Reads a response until its stream is closed. Calls `onPart` when the first part of it is there. */
function read(url: string, onPart: () => void): Promise<Ending> {
  const connection = connectHttp2(url);
  const stream = connection.session.request({ ":path": "/" });
  let [status, text] = [0, ""];
  stream.setEncoding("utf8");
  stream.on("response", (headers) => status = Number(headers[":status"]));
  stream.on("data", (chunk) => text += chunk);
  stream.once("data", onPart);
  stream.on("error", () => {}); // its code is read below
  return new Promise((resolve) => {
    stream.on("close", () => {
      connection[Symbol.dispose]();
      resolve({ status, text, code: stream.rstCode ?? 0 });
    });
  });
}

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name}() resets a response over HTTP/2 with INTERNAL_ERROR when its lease is lost`, async () => {
    await using locks = new MemoryLock();
    const server = await serve(locks);
    try {
      const steal = () => void locks.request("key", { steal: true }, () => {});
      const { status, text, code } = await read(server.url, steal);
      assertEquals([status, text], [200, "a part"]);
      assertEquals(code, constants.NGHTTP2_INTERNAL_ERROR);
      assert((await locks.query("key")).holders.length === 0);
    } finally {
      await server.stop();
    }
  });
}

for (const method of ["HEAD", "PUT"] as const) {
  Deno.test(`fastifyLock() ends a response to ${method} without a body over HTTP/2 only after the lock is released`, () =>
    untilShown(async () => {
      await using inner = new MemoryLock();
      const { lock, open, asked, isLate } = slowReleases(inner);
      const app = Fastify({ http2: true, forceCloseConnections: true } as FastifyServerOptions);
      await app.register(fastifyLock, { lock });
      app.route({
        method,
        url: "/",
        config: { lock: { key: "key", unlockedMethods: [] } },
        handler: (_request, reply) => reply.code(method === "HEAD" ? 200 : 204).send(),
      });
      const connection = connectHttp2(await app.listen({ port: 0, host: "127.0.0.1" }));
      try {
        const stream = connection.session.request({ ":path": "/", ":method": method });
        let isOver = false;
        const ended = new Promise<void>((resolve) =>
          stream.on("end", () => resolve(void (isOver = true)))
        );
        stream.resume().end();
        await waitUntil("the lock is being released", () => asked() > 0);
        for (let i = 0; i < 5; i++) assertEquals(await statusOf(connection.session, method), 409);
        if (isOver && isLate()) return "stalled";
        assert(!isOver, "the client has the whole response, but the lock is not free");
        open();
        await ended;
        assertEquals((await inner.query("key")).holders, []);
        return "shown";
      } finally {
        open();
        connection[Symbol.dispose]();
        await app.close();
      }
    }));
}
