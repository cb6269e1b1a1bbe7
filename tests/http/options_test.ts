/**
 * Bad options throw when a server starts. A bad key is the client's fault, or a bug of the program.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import Fastify from "fastify";
import { expressLock } from "../../http/express.ts";
import { fastifyLock, type FastifyLockOptions } from "../../http/fastify.ts";
import { honoLock } from "../../http/hono.ts";
import { koaLock } from "../../http/koa.ts";
import { lambdaLock } from "../../http/lambda.ts";
import { fetchLock, type HoldOptions } from "../../http/mod.ts";
import { LockInterceptor } from "../../http/nestjs.ts";
import { MemoryLock } from "../../mod.ts";

type ErrorClass = typeof TypeError | typeof RangeError;

const BAD: readonly (readonly [options: Record<string, unknown>, ErrorClass])[] = [
  [{ key: 42 }, TypeError],
  [{ key: undefined }, TypeError],
  [{ waitMs: -1 }, RangeError],
  [{ waitMs: 1.5 }, RangeError],
  [{ waitMs: Infinity }, RangeError],
  [{ waitMs: "2s" }, TypeError],
  [{ maxHoldMs: 0 }, RangeError],
  [{ maxHoldMs: 2 ** 31 }, RangeError],
  [{ busyStatus: 200 }, TypeError],
  [{ busyStatus: 400 }, TypeError],
  [{ onUnavailable: "ignore" }, TypeError],
  [{ onError: "log" }, TypeError],
  [{ waitMS: 5 }, TypeError],
];
/** Misspelt options, and those of other packages: what the error must end with. */
const HINTS: Readonly<Record<string, string>> = {
  wait: "did you mean 'waitMs'?",
  waitMS: "did you mean 'waitMs'?",
  onUnavailble: "did you mean 'onUnavailable'?",
  timeout: "to bound a wait, pass 'waitMs' to the call or to the web part",
};
const BAD_HEADERS = ["", "Fencing Token", "a:b", "a\r\nb"];

Deno.test("the http entries throw on bad options when the server starts", async (t) => {
  await using locks = new MemoryLock();
  type Options = HoldOptions & { key: string };
  const wraps: Record<string, (options: Options) => unknown> = {
    fetch: (options) => fetchLock(locks, { ...options, onUnavailable: options.onUnavailable! }),
    koa: (options) => koaLock(locks, options),
    express: (options) => expressLock(locks, options),
    hono: (options) => honoLock(locks, options),
    lambda: (options) => lambdaLock(locks, options),
  };
  for (const [name, wrap] of Object.entries(wraps)) {
    await t.step(`${name}Lock()`, () => {
      wrap({ key: "key", onUnavailable: "proceed" });
      for (const [options, errorClass] of BAD) {
        const given = { key: "key", onUnavailable: "reject", ...options } as Options;
        assertThrows(() => wrap(given), errorClass);
      }
      for (const [unknown, hint] of Object.entries(HINTS)) {
        const given = { key: "key", onUnavailable: "reject", [unknown]: 5 } as unknown as Options;
        const { message } = assertThrows(() => wrap(given), TypeError);
        const isNamed = message.startsWith(`Cannot use '${unknown}': `) && message.endsWith(hint);
        assert(isNamed, message);
      }
      for (const fencingHeader of name === "lambda" ? [] : BAD_HEADERS) {
        const given = { key: "key", onUnavailable: "reject", fencingHeader } as Options;
        const text = "'fencingHeader': it must be the name of a header, but it is " +
          JSON.stringify(fencingHeader);
        assertThrows(() => wrap(given), TypeError, text);
      }
    });
  }
});

Deno.test("the http entries say that their arguments are swapped, or that the first is no lock", async () => {
  await using locks = new MemoryLock();
  type Entry = (lock: unknown, options: unknown) => unknown;
  const entries = { fetchLock, koaLock, expressLock, honoLock, lambdaLock } as unknown as Record<
    string,
    Entry
  >;
  entries["new LockInterceptor"] = (lock, options) =>
    new LockInterceptor(lock as MemoryLock, options as string);
  for (const [name, wrap] of Object.entries(entries)) {
    const kind = name === "lambdaLock" ? "a lock, or a function that makes one" : "a lock";
    const must = `Cannot use the first argument of ${name}(): it must be ${kind}, but it is `;
    const swapped: [unknown, string][] = [["orders", "a string"], [{ key: "n" }, "an object"]];
    for (const [options, is] of swapped) {
      const message = `${must}${is}: the arguments are swapped`;
      assertEquals(assertThrows(() => wrap(options, locks), TypeError).message, message);
    }
    const others: [unknown, string][] = [
      [undefined, "undefined"],
      [{ key: "n" }, "an object"],
      [Promise.resolve(locks), "a promise (is an 'await' missing?)"],
    ];
    for (const [lock, is] of others) {
      const message = `${must}${is}: pass a strategy, such as a RedisLock`;
      assertEquals(assertThrows(() => wrap(lock, "orders"), TypeError).message, message);
    }
  }
  const app = Fastify();
  const registered = app.register(fastifyLock, locks as unknown as FastifyLockOptions);
  await assertRejects(
    async () => await registered,
    TypeError,
    "Cannot use 'lock' of fastifyLock(): it must be a lock, but it is undefined: pass a strategy",
  );
  await app.close();
});

Deno.test("fetchLock() names 'key' when the options are a function or left out", async () => {
  await using locks = new MemoryLock();
  const wrap = fetchLock as (lock: MemoryLock, options?: unknown) => unknown;
  assertThrows(() => wrap(locks, () => "n"), TypeError, "a function; pass it as { key }");
  assertThrows(() => wrap(locks), TypeError, "undefined; pass { key }, or the key alone");
});

Deno.test("fastifyLock() throws on bad options of the plugin and of a route", async () => {
  await using locks = new MemoryLock();
  for (const [options, errorClass] of BAD) {
    if ("key" in options) continue;
    const app = Fastify();
    await assertRejects(async () => {
      await app.register(fastifyLock, { lock: locks, ...options });
    }, errorClass);
    await app.close();
  }
  const app = Fastify();
  await assertRejects(async () => {
    await Fastify().register(fastifyLock, { lock: {} as MemoryLock });
  }, TypeError);
  await app.register(fastifyLock, { lock: locks });
  for (const [options, errorClass] of BAD) {
    const lock = { key: "key", ...options };
    assertThrows(() => app.get("/", { config: { lock } }, () => ""), errorClass);
  }
  for (const lock of [42, null, true]) {
    assertThrows(() => app.get("/", { config: { lock } }, () => ""), TypeError);
  }
  for (const [unknown, hint] of Object.entries(HINTS)) {
    const lock = { key: "key", [unknown]: 5 };
    const error = assertThrows(() => app.get("/", { config: { lock } }, () => ""), TypeError);
    assert(error.message.endsWith(hint), error.message);
  }
  await app.close();
});

Deno.test("fastifyLock() reads options of a prototype, and a route's `undefined` is the plugin's option", async () => {
  await using locks = new MemoryLock();
  await using _held = await locks.acquire("key");
  const app = Fastify();
  await app.register(fastifyLock, Object.create({ lock: locks, busyStatus: 423 }));
  app.get("/a", { config: { lock: Object.create({ key: "key" }) } }, () => "");
  app.get("/b", { config: { lock: { key: "key", busyStatus: undefined } } } as never, () => "");
  for (const url of ["/a", "/b"]) assertEquals((await app.inject({ url })).statusCode, 423);
  await app.close();
});

Deno.test("fetchLock() answers 400 to a key that no lock can have, and rejects if it is not a string", async () => {
  await using locks = new MemoryLock();
  const request = new Request("http://localhost/");
  const run = (key: string) => fetchLock(locks, { key: () => key })(() => new Response())(request);
  for (const key of ["", "\ud800", "x".repeat(1_001)]) {
    const response = await run(key);
    assertEquals(response.status, 400);
    assertEquals(response.headers.get("content-type"), "application/problem+json");
    await response.body?.cancel();
  }
  assertEquals((await run("x".repeat(1_000))).status, 200);
  for (const key of [42, null, {}]) {
    await assertRejects(() => run(key as unknown as string), TypeError);
  }
  const failing = fetchLock(locks, {
    key: () => {
      throw new RangeError("A bug");
    },
  })(() => new Response());
  await assertRejects(() => failing(request), RangeError, "A bug");
});

Deno.test("fetchLock() passes on a RangeError of the handler", async () => {
  await using locks = new MemoryLock();
  const handler = fetchLock(locks, { key: "key" })(() => {
    throw new RangeError("Out of range");
  });
  await assertRejects(() => handler(new Request("http://localhost/")), RangeError, "Out of range");
  assertEquals((await locks.query("key")).holders, []);
});

Deno.test("fetchLock() sends the holder's remaining time as Retry-After", async () => {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key", { maxHoldMs: 120_000 });
  const handler = fetchLock(locks, { key: "key" })(() => new Response());
  const response = await handler(new Request("http://localhost/"));
  const seconds = Number(response.headers.get("retry-after"));
  assert(seconds > 60 && seconds <= 180, `${seconds}`);
  const { retryAfterMs } = await response.json();
  assert(Math.abs(retryAfterMs / 1_000 - seconds) <= 1, `${retryAfterMs} ms, ${seconds} s`);
});

Deno.test("fetchLock() answers with any busyStatus, and a busy lock stays one to the client and to onError", async () => {
  await using locks = new MemoryLock();
  await using _lease = await locks.acquire("key");
  for (const busyStatus of [409, 423, 429, 503] as const) {
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const handler = fetchLock(locks, { key: "key", busyStatus, onError })(() => new Response());
    const response = await handler(new Request("http://localhost/"));
    const { type, status } = await response.json();
    const busy = "urn:holdfast:problem:busy";
    assertEquals([response.status, status, type, errors], [busyStatus, busyStatus, busy, []]);
    assert(Number(response.headers.get("retry-after")) >= 1);
  }
});
