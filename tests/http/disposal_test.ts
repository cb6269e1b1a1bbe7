/**
 * Servers whose lock is disposed: no request runs without the lock, and a running handler keeps it until
 * it has ended.
 */
import { assertEquals } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { lambdaLock } from "../../http/lambda.ts";
import type { HoldOptions } from "../../http/mod.ts";
import { type Lease, MemoryLock } from "../../mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  type Serve,
} from "../../testing/http/one_route.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

type Handle = () => Promise<unknown>;

const SERVERS: Record<string, (handle: Handle, options: HoldOptions) => Serve> = {
  "fetchLock": (handle, options) =>
    fetchApi(() => handle().then(() => new Response("done")), options),
  "koaLock": (handle, options) => koa(() => handle().then(() => "done"), options),
  "expressLock": (handle, options) =>
    express5((res) => handle().then(() => res.send("done")), options),
  "fastifyLock": (handle, options) => fastify(() => handle().then(() => "done"), options),
};

for (const [name, serve] of Object.entries({ ...SERVERS, "honoLock": honoServer })) {
  Deno.test(`${name}() answers 503 and never runs the handler when its lock is disposed`, async () => {
    for (const waitMs of [0, 1_000]) {
      for (const isWaiting of waitMs === 0 ? [false] : [false, true]) {
        const lock = new MemoryLock();
        const held: Lease | null = isWaiting ? await lock.acquire("key") : null;
        let handled = 0;
        const options = { waitMs, onUnavailable: "proceed" as const, onError() {} };
        const server = await serve(() => Promise.resolve(handled++), options)(lock);
        const response = isWaiting ? fetch(server.url) : null;
        if (isWaiting) {
          await waitUntil("it waits", async () => (await lock.query("key")).waiterCount === 1);
        }
        const disposed = lock[Symbol.asyncDispose]();
        const answered = await (response ?? fetch(server.url));
        await answered.text();
        assertEquals([answered.status, handled], [503, 0]);
        await held?.release();
        await disposed;
        await server.stop();
      }
    }
  });
}

function honoServer(handle: Handle, options: HoldOptions): Serve {
  return hono(() => (void handle(), new Response("done")), options);
}

const LATE_ANSWERS = {
  ...SERVERS,
  "With a later reply.send(), fastifyLock": (handle: Handle, options: HoldOptions) =>
    fastify((reply) => void handle().then(() => reply.send("done")), options),
  "With a later reply.hijack(), fastifyLock": (handle: Handle, options: HoldOptions) =>
    fastify((reply) => void handle().then(() => void reply.hijack().raw.end("done")), options),
  "With a late answer that cannot be destroyed, fetchLock": undestroyable,
};

function undestroyable(handle: Handle, options: HoldOptions): Serve {
  const destroy = () => {
    throw new Error("A bug");
  };
  const answer = { pipe() {}, destroy } as unknown as Response;
  return fetchApi(() => handle().then(() => answer), options);
}

for (const [name, serve] of Object.entries(LATE_ANSWERS)) {
  Deno.test(`${name}() answers 503 and keeps the lock until the handler ends when its lock is disposed meanwhile`, async () => {
    const dir = await Deno.makeTempDir();
    {
      await using others = new FileLock({ dir });
      const lock = new FileLock({ dir, disposeTimeoutMs: CONDITION_BOUND_MS });
      const started = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      const server = await serve(() => {
        started.resolve();
        return gate.promise;
      }, { onError() {} })(lock);
      const response = fetch(server.url);
      await started.promise;
      const disposed = lock[Symbol.asyncDispose]();
      const answered = await within("the loss is answered", response);
      await answered.text();
      assertEquals(answered.status, 503);
      assertEquals(await others.tryAcquire("key"), null);
      gate.resolve();
      await within("disposal ends when the handler does", disposed);
      await using lease = await others.tryAcquire("key");
      assertEquals(lease?.name, "key");
      await server.stop();
    }
    await Deno.remove(dir, { recursive: true });
  });
}

Deno.test("lambdaLock() answers 503 and keeps the lock until the handler ends when its lock is disposed meanwhile", async () => {
  const dir = await Deno.makeTempDir();
  {
    await using others = new FileLock({ dir });
    const lock = new FileLock({ dir, disposeTimeoutMs: CONDITION_BOUND_MS });
    const started = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const handler = lambdaLock(lock, { key: "key", onError() {} })(() => {
      started.resolve();
      return gate.promise;
    });
    const context = { getRemainingTimeInMillis: () => 60_000 };
    const result = handler({ requestContext: { http: {} } }, context);
    await started.promise;
    const disposed = lock[Symbol.asyncDispose]();
    const answer = await within("the loss is answered", result) as { statusCode?: number };
    assertEquals(answer?.statusCode, 503);
    assertEquals(await others.tryAcquire("key"), null);
    gate.resolve();
    await within("disposal ends when the handler does", disposed);
    await using lease = await others.tryAcquire("key");
    assertEquals(lease?.name, "key");
  }
  await Deno.remove(dir, { recursive: true });
});
