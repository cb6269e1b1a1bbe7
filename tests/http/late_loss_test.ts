/**
 * Leases that are lost before the handler starts or after it has returned: no client may take the
 * response for a complete one.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { pipeline, Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { lambdaLock } from "../../http/lambda.ts";
import { fetchLock, type HoldOptions } from "../../http/mod.ts";
import { LeaseLostError, MemoryLock } from "../../mod.ts";
import { promiseTry } from "../../core/contract/promise_try.ts";
import { block } from "../../testing/conformance/bounds.ts";
import { bounded, waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";
import {
  express5,
  fastify,
  fetchApi,
  hono,
  koa,
  type RouteOptions,
  type Serve,
} from "../../testing/http/one_route.ts";
import { withLeases } from "../../testing/http/with_leases.ts";
import { temporary } from "../../testing/file/lock_directories.ts";

const OPTIONS = { maxHoldMs: 100 };
const encoder = new TextEncoder();

/** Sends its first chunk after the lease was lost. */
async function* lostBeforeFirstChunk(lost: Promise<void>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  await lost;
  yield encoder.encode("all of it");
}

/** Ends after the lease has expired: only the clock shows that, since no timer fires in a blocked process. */
async function* lostBeforeEnd(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield encoder.encode("all ");
  await turn();
  yield encoder.encode("of it");
  await turn();
  block(150);
}

type Source = () => AsyncGenerator<Uint8Array<ArrayBuffer>>;
const web = (source: Source) => ReadableStream.from(source());
const SERVERS: Record<string, (source: Source) => Serve> = {
  "fetchLock()": (source) => fetchApi(() => new Response(web(source)), OPTIONS),
  "honoLock()": (source) => hono(() => new Response(web(source)), OPTIONS),
  "koaLock()": (source) => koa(() => Readable.from(source()), OPTIONS),
  "expressLock()": (source) => express5((res) => void Readable.from(source()).pipe(res), OPTIONS),
  "expressLock() with a pipeline": (source) =>
    express5((res) => void pipeline(Readable.from(source()), res, () => {}), OPTIONS),
  "koaLock() with a web stream": (source) => koa(() => web(source), OPTIONS),
  "fastifyLock()": (source) => fastify(() => Promise.resolve(Readable.from(source())), OPTIONS),
  "fastifyLock() with a web stream": (source) =>
    fastify(() => Promise.resolve(web(source)), OPTIONS),
  "fastifyLock() with reply.send()": (source) =>
    fastify((reply) => void reply.send(web(source)), OPTIONS),
  "fastifyLock() with a Response": (source) =>
    fastify(() => Promise.resolve(new Response(web(source))), OPTIONS),
};

/** Returns the status and the body, or `null` if the response is not complete. */
async function ask(url: string): Promise<[status: number, text: string] | null> {
  using client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  return await bounded("the response", CONDITION_BOUND_MS, async (signal) => {
    try {
      const response = await fetch(url, { client, signal });
      return [response.status, await response.text()];
    } catch (error) {
      if (signal.aborted) throw error;
      return null;
    }
  });
}

async function withServer(
  serve: Serve,
  locks: MemoryLock,
  test: (url: string) => Promise<void>,
): Promise<void> {
  const server = await serve(locks);
  try {
    await test(server.url);
    await waitUntil(
      "the lock is free",
      async () => (await locks.query("key")).holders.length === 0,
    );
  } finally {
    await server.stop();
  }
}

for (const [name, serve] of Object.entries(SERVERS)) {
  for (const source of [lostBeforeFirstChunk, lostBeforeEnd]) {
    Deno.test(`${name} never completes a stream when its lease is lost (${source.name})`, async () => {
      await using locks = new MemoryLock();
      const lost = Promise.withResolvers<void>();
      let isLost = false;
      const watched = withLeases(locks, (lease) => {
        lease.signal.addEventListener("abort", () => {
          isLost = true;
          lost.resolve();
        });
        return lease;
      });
      const served = () => serve(() => source(lost.promise))(watched);
      await withServer(served, locks, async (url) => {
        const answer = await ask(url);
        assert(answer === null ? isLost : answer[0] === 503, `${answer}`);
      });
    });
  }
}

const HANDLED: Record<string, (handle: () => void) => Serve> = {
  "fetchLock()": (handle) => fetchApi(() => (handle(), new Response("")), OPTIONS),
  "honoLock()": (handle) => hono(() => (handle(), new Response("")), OPTIONS),
  "koaLock()": (handle) => koa(handle, OPTIONS),
  "expressLock()": (handle) => express5((res) => (handle(), res.send("")), OPTIONS),
  "fastifyLock()": (handle) => fastify(handle, OPTIONS),
};

for (const [name, serve] of Object.entries(HANDLED)) {
  Deno.test(`${name} answers 503 and never runs the handler when the lease is lost before`, async () => {
    await using locks = new MemoryLock();
    const lostAtOnce = withLeases(locks, (lease) => (block(150), lease));
    let isHandled = false;
    await withServer(
      () => serve(() => isHandled = true)(lostAtOnce),
      locks,
      async (url) => {
        const [status, text] = (await ask(url))!;
        assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
        assertEquals(isHandled, false);
      },
    );
  });
}

for (const [name, serve] of Object.entries(HANDLED)) {
  Deno.test(`${name} does not complete its response when only the release finds that the lock is gone`, async () => {
    await using temp = await temporary();
    await using locks = new FileLock({ dir: temp.dir });
    const server = await serve(() => Deno.removeSync(lockPath(temp.dir, "key")))(locks);
    const answer = await ask(server.url);
    await server.stop();
    assert(answer === null || answer[0] === 503, `${answer}`);
  });
}

Deno.test("fetchLock() and lambdaLock() answer 503, and report it, when only the release finds that the lock is gone", async () => {
  await using temp = await temporary();
  await using locks = new FileLock({ dir: temp.dir });
  const errors: unknown[] = [];
  const options = { key: "key", onError: (error: unknown) => void errors.push(error) };
  const remove = () => Deno.removeSync(lockPath(temp.dir, "key"));
  const fetched = fetchLock(locks, options)(() => (remove(), new Response("done")));
  assertEquals((await fetched(new Request("http://localhost/"))).status, 503);
  const streamed = fetchLock(locks, options)(() =>
    new Response(ReadableStream.from((async function* () {
      yield encoder.encode("all of it");
      await turn();
      remove();
    })()))
  );
  const response = await streamed(new Request("http://localhost/"));
  await assertRejects(() => response.text(), LeaseLostError);
  const invoke = lambdaLock(locks, options)(() => (remove(), { statusCode: 200 }));
  const event = { version: "2.0", requestContext: { http: { method: "PUT" } } };
  const context = { getRemainingTimeInMillis: () => 60_000 };
  const { statusCode } = await invoke(event, context) as { statusCode: number };
  assertEquals(statusCode, 503);
  assertEquals(errors.map((error) => (error as LeaseLostError).reason), Array(3).fill("stolen"));
});

const SERIALIZING: Record<string, (body: unknown, options: RouteOptions) => Serve> = {
  "koaLock()": (body, options) => koa(() => body, options),
  "expressLock()": (body, options) => express5((res) => res.json(body), options),
  "fastifyLock()": (body, options) => fastify(() => Promise.resolve(body), options),
};

/** The options of a route, and what they report: to `onError`, and to the error handler of the user. */
function watched() {
  const [errors, failures]: [unknown[], unknown[]] = [[], []];
  const options: RouteOptions = {
    ...OPTIONS,
    onError: (error) => void errors.push(error),
    onFailure: (error) => void failures.push(error),
  };
  return { options, errors, failures };
}

for (const [name, serve] of Object.entries(SERIALIZING)) {
  Deno.test(`${name} never completes a response when its lease expires while the body is serialized`, async () => {
    await using locks = new MemoryLock();
    const { options, errors, failures } = watched();
    let isSerialized = false;
    const body = { toJSON: () => (isSerialized = true, block(150), "all of it") };
    await withServer(serve(body, options), locks, async (url) => {
      const answer = await ask(url);
      const [status, text = ""] = answer ?? [];
      assert(answer === null ? isSerialized : status === 503 && JSON.parse(text).title, text);
      assertEquals([errors.length, failures], [answer === null ? 0 : 1, []]);
    });
  });
}

/** Handlers that answer with what a function makes, which blocks the process until the lease has expired. */
const BLOCKING: Record<string, (make: () => string, options: RouteOptions) => Serve> = {
  "fetchLock()": (make, options) => fetchApi(() => new Response(make()), options),
  "honoLock()": (make, options) => hono(() => new Response(make()), options),
  "koaLock()": (make, options) => koa(make, options),
  "expressLock()": (make, options) => express5((res) => res.send(make()), options),
  "fastifyLock()": (make, options) => fastify(make, options),
  "fastifyLock() with an object": (make, options) => fastify(() => ({ text: make() }), options),
  "fastifyLock() with a promise": (make, options) => fastify(() => promiseTry(make), options),
  "fastifyLock() with reply.send()": (make, options) =>
    fastify((reply) => reply.send(make()), options),
  "fastifyLock() with reply.send() and a promise": (make, options) =>
    fastify((reply) => promiseTry(make).then((text) => reply.send(text)), options),
};

for (const [name, serve] of Object.entries(BLOCKING)) {
  Deno.test(`${name} answers and reports a loss once that the handler's answer is the first to notice`, async () => {
    await using locks = new MemoryLock();
    const { options, errors, failures } = watched();
    const make = () => (block(150), "all of it");
    await withServer(serve(make, options), locks, async (url) => {
      const [status, text] = (await ask(url))!;
      assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
      assertEquals(errors.map((error) => (error as LeaseLostError).reason), ["max-hold"]);
      assertEquals(failures, []);
    });
  });

  Deno.test(`${name} answers and reports a loss once that the handler's error is the first to notice`, async () => {
    await using locks = new MemoryLock();
    const { options, errors, failures } = watched();
    const bug = new Error("A bug");
    const make = () => {
      block(150);
      throw bug;
    };
    await withServer(serve(make, options), locks, async (url) => {
      const [status, text] = (await ask(url))!;
      assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
      const all = [...errors, ...failures];
      assertEquals(all.filter((error) => error === bug).length, 1);
      const others = all.filter((error) => error !== bug);
      assertEquals(others.map((error) => (error as LeaseLostError).reason), ["max-hold"]);
    });
  });
}

Deno.test("fastifyLock() answers and reports a loss once that a later reply.send() is the first to notice", async () => {
  for (const answer of [() => "all of it", () => ({ text: "all of it" })]) {
    await using locks = new MemoryLock();
    const { options, errors, failures } = watched();
    const handle = (reply: { send(payload: unknown): unknown }) =>
      void setTimeout(() => {
        block(150);
        reply.send(answer());
      });
    await withServer(fastify(handle, options), locks, async (url) => {
      const [status, text] = (await ask(url))!;
      assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
      assertEquals(errors.map((error) => (error as LeaseLostError).reason), ["max-hold"]);
      assertEquals(failures, []);
    });
  }
});

Deno.test("fastifyLock() answers 503 when its lease is lost and the handler's stream cannot be destroyed", async () => {
  await using locks = new MemoryLock();
  const { options, errors, failures } = watched();
  const bug = new Error("A bug");
  const destroy = () => {
    throw bug;
  };
  const serve = fastify(() => (block(150), { pipe() {}, destroy }), options);
  await withServer(serve, locks, async (url) => {
    const [status, text] = (await ask(url))!;
    assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
    assertEquals([errors.slice(1), failures], [[bug], []]);
  });
});

const FAILING: Record<string, (handle: () => Promise<never>, options: HoldOptions) => Serve> = {
  "fetchLock()": (handle, options) => fetchApi(handle, options),
  "koaLock()": (handle, options) => koa(handle, options),
};

for (const [name, serve] of Object.entries(FAILING)) {
  Deno.test(`${name} reports an error that a handler throws after its lease was lost`, async () => {
    const bug = new Error("A bug");
    const failures = {
      "the loss": (loss: Error) => loss,
      "an error because of it": (cause: Error) => new Error("Aborted", { cause }),
      "a bug": () => bug,
    };
    for (const [what, failure] of Object.entries(failures)) {
      await using locks = new MemoryLock();
      const [lost, answered, ended] = [
        Promise.withResolvers<Error>(),
        Promise.withResolvers<void>(),
        Promise.withResolvers<void>(),
      ];
      const watched = withLeases(locks, (lease) => {
        lease.signal.addEventListener("abort", () => lost.resolve(lease.signal.reason));
        return lease;
      });
      const errors: unknown[] = [];
      const handle = async () => {
        const loss = await lost.promise;
        await answered.promise;
        void turn().then(ended.resolve); // after the error below was reported
        throw failure(loss);
      };
      const options = { ...OPTIONS, onError: (error: unknown) => void errors.push(error) };
      await withServer(() => serve(handle, options)(watched), locks, async (url) => {
        assertEquals((await ask(url))![0], 503);
        answered.resolve();
        await ended.promise;
        assertEquals(errors, [await lost.promise, ...what === "a bug" ? [bug] : []], what);
      });
    }
  });
}
