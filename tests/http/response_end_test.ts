/**
 * The end of a response waits for the release: a client that has the whole response finds the lock free.
 */
import { assert, assertEquals } from "@std/assert";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as turn } from "node:timers/promises";
import { MemoryLock } from "../../mod.ts";
import { untilShown } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  type Serve,
} from "../../testing/http/one_route.ts";
import { slowReleases } from "../../testing/http/with_leases.ts";

async function* pieces(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  yield encoder.encode("all ");
  await turn();
  yield encoder.encode("of it");
}

const stream = () => Readable.from(pieces());
const webStream = () => ReadableStream.from(pieces());

const CASES: Record<string, Serve> = {
  "fetchLock() with a text": fetchApi(() => new Response("all of it")),
  "fetchLock() with a stream": fetchApi(() => new Response(webStream())),
  "honoLock() with a text": hono(() => new Response("all of it")),
  "honoLock() with a stream": hono(() => new Response(webStream())),
  "koaLock() with a text": koa(() => "all of it"),
  "koaLock() with a stream": koa(stream),
  "expressLock() with a text": express5((res) => res.send("all of it")),
  "expressLock() with a piped stream": express5((res) => void stream().pipe(res)),
  "expressLock() with a stream in a pipeline": express5((res) => pipeline(stream(), res)),
  "expressLock() with pieces": express5(async (res) => {
    for await (const piece of pieces()) res.write(piece);
    res.end();
  }),
  "fastifyLock() with a returned text": fastify(() => Promise.resolve("all of it")),
  "fastifyLock() with a returned stream": fastify(() => Promise.resolve(stream())),
  "fastifyLock() with a sent text": fastify((reply) => void reply.send("all of it")),
  "fastifyLock() with a sent stream": fastify((reply) => void reply.send(stream())),
  "fastifyLock() with a returned reply": fastify((reply) => reply.send(stream())),
  // deno-lint-ignore require-await -- this case tests an async handler
  "fastifyLock() with a sent text, async,": fastify(async (reply) => void reply.send("all of it")),
  // deno-lint-ignore require-await -- this case tests an async handler
  "fastifyLock() with a sent stream, async,": fastify(async (reply) => void reply.send(stream())),
  // deno-lint-ignore require-await -- this case tests an async handler
  "fastifyLock() with a returned reply with a text, async,": fastify(async (reply) =>
    reply.send("all of it")
  ),
  // deno-lint-ignore require-await -- this case tests an async handler
  "fastifyLock() with a returned reply with a stream, async,": fastify(async (reply) =>
    reply.send(stream())
  ),
};

for (const [name, serve] of Object.entries(CASES)) {
  Deno.test(`${name} ends the response only after the lock is released`, () =>
    untilShown(async () => {
      await using inner = new MemoryLock();
      const { lock, open, asked, isLate } = slowReleases(inner);
      const server = await serve(lock);
      try {
        let isWhole = false;
        const text = fetch(server.url).then((response) => response.text())
          .finally(() => isWhole = true);
        await waitUntil("the lock is being released", () => asked() > 0);
        for (let i = 0; i < 5; i++) await (await fetch(server.url)).text();
        if (isWhole && isLate()) return "stalled";
        assert(!isWhole, "the client has the whole response, but the lock is not free");
        open();
        assertEquals(await text, "all of it");
        assertEquals((await inner.query("key")).holders, []);
        assertEquals(asked(), 1);
        return "shown";
      } finally {
        open();
        await server.stop();
      }
    }));
}

Deno.test("fastifyLock() holds the lock while a handler runs on after its reply was sent", async () => {
  await using locks = new MemoryLock();
  const held: boolean[] = [];
  const gate = Promise.withResolvers<void>();
  const server = await fastify(async (reply) => {
    await reply.send("all of it");
    await gate.promise;
    held.push((await locks.query("key")).holders.length > 0);
  })(locks);
  try {
    assertEquals(await (await fetch(server.url)).text(), "all of it");
    gate.resolve();
    await waitUntil("the handler has ended", () => held.length === 1);
    assertEquals(held, [true]);
    await waitUntil(
      "the lock is free",
      async () => (await locks.query("key")).holders.length === 0,
    );
  } finally {
    await server.stop();
  }
});
