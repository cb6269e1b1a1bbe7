/** Over HTTP/2 a client must not take a part of a response for the whole: it is reset with an error. */
import { assert, assertEquals } from "@std/assert";
import { connect, constants, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import Fastify, { type FastifyServerOptions } from "fastify";
// @ts-types="@types/koa"
import Koa from "koa";
import { fastifyLock } from "../../http/fastify.ts";
import { koaLock } from "../../http/koa.ts";
import { MemoryLock } from "../../mod.ts";
import type { Serve } from "../../testing/http/one_route.ts";

const HOLD = { maxHoldMs: 100 };

/** Sends a part, and no end. */
async function* endless(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield new TextEncoder().encode("a part");
  await new Promise(() => {});
}

const SERVERS: Record<string, Serve> = {
  async koaLock(lock) {
    const app = new Koa();
    app.silent = true;
    app.use(koaLock(lock, { ...HOLD, key: "key" }));
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
    await app.register(fastifyLock, { ...HOLD, lock });
    app.get("/", { config: { lock: "key" } }, () => Readable.from(endless()));
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  },
};

interface Ending {
  readonly status: number;
  readonly text: string;
  readonly code: number;
}

/** Reads a response until its stream is closed. */
function read(url: string): Promise<Ending> {
  const session = connect(url);
  const stream = session.request({ ":path": "/" });
  let [status, text] = [0, ""];
  stream.setEncoding("utf8");
  stream.on("response", (headers) => status = Number(headers[":status"]));
  stream.on("data", (chunk) => text += chunk);
  stream.on("error", () => {}); // its code is read below
  return new Promise((resolve) => {
    stream.on("close", () => {
      session.close(() => resolve({ status, text, code: stream.rstCode ?? 0 }));
    });
  });
}

for (const [name, serve] of Object.entries(SERVERS)) {
  Deno.test(`${name}() resets a response over HTTP/2 with INTERNAL_ERROR when its lease is lost`, async () => {
    await using locks = new MemoryLock();
    const server = await serve(locks);
    try {
      const { status, text, code } = await read(server.url);
      assertEquals([status, text], [200, "a part"]);
      assertEquals(code, constants.NGHTTP2_INTERNAL_ERROR);
      assert((await locks.query("key")).holders.length === 0);
    } finally {
      await server.stop();
    }
  });
}
