/**
 * Behaviour that only NestJS has: the lock comes from a provider, and the end of a handler is that of its
 * observable. The behaviour that all frameworks share is in `testing/http/framework_suite.ts`.
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  type CallHandler,
  Catch,
  Controller,
  type ExecutionContext,
  Get,
  type HttpException,
  Module,
  Req,
  Res,
  Sse,
  type Type,
  UseFilters,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import {
  concat,
  finalize,
  from,
  fromEvent,
  interval,
  map,
  NEVER,
  Observable,
  raceWith,
  Subject,
  take,
  takeUntil,
  timeout,
  type UnsubscriptionError,
} from "rxjs";
import { FileLock } from "../../file/mod.ts";
import { HeldLease, Lock, LockInterceptor } from "../../http/nestjs.ts";
import { type Lease, LeaseLostError, MemoryLock } from "../../mod.ts";
import { block } from "../../testing/conformance/bounds.ts";
import { decorate, type NestPlatform, serveNest } from "../../testing/http/nest_server.ts";
import { registerTest } from "../../testing/runtime/tests.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { scaled } from "../../testing/time.ts";
import { CONDITION_BOUND_MS } from "../../testing/time.ts";

type Handler = (this: unknown, ...args: never[]) => unknown;

/** Makes a controller with one method per path. */
function controllerOf(handlers: Readonly<Record<string, Handler>>, ...around: MethodDecorator[]) {
  class Routes {}
  Controller()(Routes);
  for (const [name, value] of Object.entries(handlers)) {
    Object.defineProperty(Routes.prototype, name, { value, writable: true, configurable: true });
    decorate(Routes, name, Get(name), ...around);
  }
  return Routes as Type;
}

async function ask(url: string): Promise<[status: number, text: string]> {
  const response = await fetch(url);
  return [response.status, await response.text()];
}

const isHeld = async (locks: MemoryLock, key = "key") =>
  (await locks.query(key)).holders.length > 0;
const untilFree = (locks: MemoryLock, key = "key") =>
  waitUntil(`${key} is free`, async () => !await isHeld(locks, key));
const PLATFORMS: readonly NestPlatform[] = ["express", "fastify"];

registerTest("@Lock() keeps an application without a provider of LOCKS from starting", async () => {
  class App {}
  Module({ controllers: [controllerOf({ a: () => "done" }, Lock("key"))] })(App);
  const options = { logger: false, abortOnError: false } as const;
  const error = await NestFactory.create(App, options).then(() => null, (error) => error);
  assertStringIncludes(String(error), "LockInterceptor");
});

registerTest("@Lock() starts an application without a warning", async () => {
  await using locks = new MemoryLock();
  const lines: unknown[] = [];
  const log = (...args: unknown[]) => void lines.push(args);
  const logger = { log() {}, warn: log, error: log, fatal: log };
  const Routes = controllerOf({ a: () => "done" }, Lock("key"));
  await using server = await serveNest(locks, [Routes], "express", logger);
  assertEquals(await ask(`${server.url}/a`), [200, "done"]);
  assertEquals(lines, []);
});

// deno-lint-ignore require-await -- tests are async
registerTest("@Lock() throws when the method has a lock already, or an option is bad", async () => {
  assertThrows(() => controllerOf({ a: () => "" }, Lock("a"), Lock("b")), TypeError, "twice");
  assertThrows(() => Lock({ key: "a", waitMs: -1 }), RangeError);
  assertThrows(() => Lock(undefined as unknown as string), TypeError);
  assertThrows(() => new LockInterceptor({} as MemoryLock, "a"), TypeError);
});

registerTest("LockInterceptor never passes a request whose lock it does not know", async () => {
  await using locks = new MemoryLock();
  let handled = 0;
  const around = UseInterceptors(new LockInterceptor(locks));
  await using server = await serveNest(locks, [controllerOf({ a: () => handled++ }, around)]);
  assertEquals([(await ask(`${server.url}/a`))[0], handled], [500, 0]);
});

registerTest(
  "LockInterceptor is called before those above it, and after those of the controller and to its left",
  async () => {
    const acquired: string[] = [];
    class RecordingLock extends MemoryLock {
      override tryAcquire(...args: Parameters<MemoryLock["tryAcquire"]>) {
        acquired.push(args[0]);
        return super.tryAcquire(...args);
      }
    }
    await using locks = new RecordingLock();
    const interceptor = (name: string) => new LockInterceptor(locks, name);
    const Routes = controllerOf(
      { a: (lease: Lease) => lease.name },
      UseInterceptors(interceptor("lowest, left"), interceptor("lowest, right")),
      Lock("above"),
    );
    UseInterceptors(interceptor("controller"))(Routes);
    HeldLease()(Routes.prototype, "a", 0);
    await using server = await serveNest(locks, [Routes]);
    assertEquals(await ask(`${server.url}/a`), [200, "above"]);
    assertEquals(acquired, ["controller", "lowest, left", "lowest, right", "above"]);
  },
);

for (const platform of PLATFORMS) {
  registerTest(
    `LockInterceptor and @Lock() hold two locks of one request, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const Routes = controllerOf(
        {
          async a(lease: Lease) {
            return [lease.name, await isHeld(locks, "outer"), await isHeld(locks, "inner")].join();
          },
        },
        // Nest calls the interceptor first whose decorator is applied first: the lowest one above a method.
        UseInterceptors(new LockInterceptor(locks, "outer")),
        Lock("inner"),
      );
      HeldLease()(Routes.prototype, "a", 0);
      await using server = await serveNest(locks, [Routes], platform);
      for (let i = 0; i < 3; i++) {
        assertEquals(await ask(`${server.url}/a`), [200, "inner,true,true"]);
        for (const name of ["outer", "inner"]) assertEquals(await isHeld(locks, name), false);
      }
      await using _lease = await locks.acquire("outer");
      assertEquals((await ask(`${server.url}/a`))[0], 409);
    },
  );

  registerTest(
    `@Lock() answers problem details, or what a filter makes of its exception, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      await using _lease = await locks.acquire("key");
      class Filter {
        catch(exception: HttpException, host: { switchToHttp(): { getResponse<T>(): T } }) {
          const response = host.switchToHttp().getResponse<
            { status(code: number): { send(body: unknown): void } }
          >();
          const { title } = exception.getResponse() as { title: string };
          response.status(exception.getStatus()).send({ mine: title });
        }
      }
      Catch()(Filter);
      const plain = controllerOf({ plain: () => "never" }, Lock("key"));
      const filtered = controllerOf(
        { filtered: () => "never" },
        Lock("key"),
        UseFilters(new Filter()),
      );
      await using server = await serveNest(locks, [plain, filtered], platform);
      const response = await fetch(`${server.url}/plain`);
      assertEquals([response.status, (await response.json()).title], [409, "Busy"]);
      assertStringIncludes(response.headers.get("content-type")!, "application/problem+json");
      assert(Number(response.headers.get("retry-after")) >= 1);
      assertEquals(await ask(`${server.url}/filtered`), [409, '{"mine":"Busy"}']);
    },
  );

  registerTest(
    `@Lock() releases its lease when the headers were sent before the grant, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const flushing = {
        intercept(context: ExecutionContext, next: CallHandler) {
          const response = context.switchToHttp().getResponse();
          (response.raw ?? response).flushHeaders(); // as a heartbeat does
          return next.handle();
        },
      };
      const end = (response: { raw?: ServerResponse } & ServerResponse) =>
        void (response.raw ?? response).end("done");
      const options = { key: "key", fencingHeader: "Fencing-Token" };
      const Routes = controllerOf({ early: end }, UseInterceptors(flushing), Lock(options));
      Res()(Routes.prototype, "early", 0);
      await using server = await serveNest(locks, [Routes], platform);
      assertEquals(await ask(`${server.url}/early`), [200, "done"]);
      await untilFree(locks);
    },
  );

  registerTest(
    `@Lock() keeps its 503 and the lock of a handler that answers with @Res() after the loss, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const errors: unknown[] = [];
      const ended: string[] = [];
      const answered: Record<string, PromiseWithResolvers<void>> = {};
      const steal = () => locks.request("key", { steal: true }, () => {});
      const late = (name: string, handle: (response: { send(body: string): unknown }) => unknown) =>
        async function (_lease: Lease, response: { send(body: string): unknown }) {
          await steal();
          await answered[name]!.promise;
          ended.push(name);
          return handle(response);
        };
      const handlers = {
        sends: late("sends", (response) => response.send("too late")),
        throws: late("throws", () => {
          throw new Error("too late");
        }),
        // The method has ended long before its answer.
        callback(_lease: Lease, response: { send(body: string): unknown }) {
          setTimeout(steal, 30);
          void answered["callback"]!.promise.then(() => {
            ended.push("callback");
            response.send("too late");
          });
        },
      };
      const options = { key: "key", onError: (error: unknown) => errors.push(error) };
      const Routes = controllerOf(handlers, Lock(options));
      for (const name of Object.keys(handlers)) {
        HeldLease()(Routes.prototype, name, 0);
        Res()(Routes.prototype, name, 1);
      }
      await using server = await serveNest(locks, [Routes], platform);
      for (const name of Object.keys(handlers)) {
        answered[name] = Promise.withResolvers();
        const [status, text] = await ask(`${server.url}/${name}`);
        answered[name].resolve();
        assertEquals([name, status, JSON.parse(text).title], [name, 503, "Lease lost"]);
        await waitUntil("the handler has ended", () => ended.includes(name));
        await untilFree(locks);
      }
      const errorCount = Object.keys(handlers).length + 1; // three losses and a late error
      await waitUntil("all is reported", () => errors.length >= errorCount);
      assertEquals((await ask(`${server.url}/missing`))[0], 404);
      assertEquals(errors.length, errorCount);
    },
  );

  registerTest(
    `@Lock() holds the lock until an observable has ended or its client has left, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const enough = new Subject<void>();
      const Routes = controllerOf({
        observable: () => interval(5).pipe(take(4), map((i) => `${i}`)),
        events: () => interval(5).pipe(takeUntil(enough), map((i) => ({ data: `${i}` }))),
        endless: () => interval(5).pipe(map((i) => ({ data: `${i}` }))),
      }, Lock("key"));
      for (const name of ["events", "endless"]) decorate(Routes, name, Sse(name));
      await using server = await serveNest(locks, [Routes], platform);
      assertEquals(await ask(`${server.url}/observable`), [200, "3"]);
      assertEquals(await isHeld(locks), false);
      for (const name of ["events", "endless"]) {
        const response = await fetch(`${server.url}/${name}`);
        const reader = response.body!.getReader();
        await reader.read();
        assertEquals(await isHeld(locks), true);
        enough.next();
        if (name === "endless") await reader.cancel();
        else while (!(await reader.read()).done);
        await untilFree(locks);
      }
    },
  );
}

registerTest(
  "@Lock() keeps the lock until the handler has ended when another interceptor answers earlier",
  async () => {
    await using locks = new MemoryLock();
    const events = new EventEmitter();
    let ended = false;
    const impatient = {
      intercept: (_context: unknown, next: { handle(): Observable<unknown> }) =>
        next.handle().pipe(timeout(scaled(200))),
    };
    const slow = async () => {
      await new Promise((resolve) => events.once("go", resolve));
      ended = true;
    };
    const handlers = { promise: slow, observable: () => from(slow()) };
    const Routes = controllerOf(handlers, UseInterceptors(impatient), Lock("key"));
    await using server = await serveNest(locks, [Routes]);
    for (const name of Object.keys(handlers)) {
      ended = false;
      assertEquals((await ask(`${server.url}/${name}`))[0], 500);
      assertEquals((await ask(`${server.url}/missing`))[0], 404);
      assertEquals([await isHeld(locks), ended], [true, false]);
      events.emit("go");
      await untilFree(locks);
      assertEquals(ended, true);
    }
  },
);

registerTest(
  "@Lock() leaves the queue and frees the outer lock when another interceptor answers while it waits",
  async () => {
    await using locks = new MemoryLock();
    let handled = 0;
    const waitMs = 2 * CONDITION_BOUND_MS;
    const events = new EventEmitter();
    const impatient = {
      intercept: (_context: unknown, next: { handle(): Observable<unknown> }) =>
        next.handle().pipe(raceWith(fromEvent(events, "answer").pipe(take(1)))),
    };
    const outer = new LockInterceptor(locks, { key: "outer", waitMs });
    const Routes = controllerOf(
      { a: () => `${++handled}` },
      UseInterceptors(impatient, outer),
      Lock({ key: "inner", waitMs }),
    );
    await using server = await serveNest(locks, [Routes]);
    const held = await locks.acquire("inner");
    const answer = ask(`${server.url}/a`);
    await waitUntil("it waits", async () => (await locks.query("inner")).waiterCount === 1);
    events.emit("answer", "too slow");
    assertEquals(await answer, [200, "too slow"]);
    await waitUntil("it has left", async () => (await locks.query("inner")).waiterCount === 0);
    await untilFree(locks, "outer");
    await held.release();
    await untilFree(locks, "inner");
    assertEquals(await ask(`${server.url}/a`), [200, "1"]);
  },
);

registerTest(
  "@Lock() never runs the handler when its lock was disposed, and keeps the lock of one that runs",
  async () => {
    const dir = await mkdtemp(`${tmpdir()}/holdfast-`);
    await using others = new FileLock({ dir });
    const locks = new FileLock({ dir, disposeTimeoutMs: CONDITION_BOUND_MS });
    const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let handled = 0;
    const Routes = controllerOf({
      async slow() {
        handled++;
        started.resolve();
        await gate.promise;
      },
    }, Lock({ key: "key", onUnavailable: "proceed" }));
    await using server = await serveNest(locks, [Routes]);
    const answer = ask(`${server.url}/slow`);
    await started.promise;
    const disposed = locks[Symbol.asyncDispose]();
    assertEquals((await answer)[0], 503);
    assertEquals(await others.tryAcquire("key"), null);
    gate.resolve();
    await disposed;
    assertEquals(await (await others.tryAcquire("key"))?.release(), true);
    assertEquals([(await ask(`${server.url}/slow`))[0], handled], [503, 1]);
    await rm(dir, { recursive: true });
  },
);

registerTest(
  "@Lock() answers 503 when the lease has expired at the end of the handler, before any timer ran",
  async () => {
    await using locks = new MemoryLock();
    const slow = () => (block(150), "done");
    const Routes = controllerOf({ slow }, Lock({ key: "key", maxHoldMs: 50 }));
    await using server = await serveNest(locks, [Routes]);
    const [status, text] = await ask(`${server.url}/slow`);
    assertEquals([status, JSON.parse(text).title], [503, "Lease lost"]);
  },
);

for (const platform of PLATFORMS) {
  registerTest(
    `@Lock() never completes a response when its lease expires while the body is serialized, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      let isSerialized = false;
      const toJSON = () => (isSerialized = true, block(150), "all of it");
      const Routes = controllerOf(
        { slow: () => ({ toJSON }) },
        Lock({ key: "key", maxHoldMs: 50 }),
      );
      await using server = await serveNest(locks, [Routes], platform);
      const [status] = await ask(`${server.url}/slow`).catch(() => [null]);
      assert(status === null ? isSerialized : status === 503, `${status}`);
      await untilFree(locks);
    },
  );
}

registerTest(
  "@Lock() ends the wait of a client that leaves, and a client that leaves keeps no lock",
  async () => {
    await using locks = new MemoryLock();
    let handled = 0;
    const Routes = controllerOf(
      { a: () => handled++ },
      Lock({ key: "key", waitMs: CONDITION_BOUND_MS }),
    );
    Req()(Routes.prototype, "a", 0);
    await using server = await serveNest(locks, [Routes]);
    await using lease = await locks.acquire("key");
    const controller = new AbortController();
    const asking = fetch(`${server.url}/a`, { signal: controller.signal });
    await waitUntil("it waits", async () => (await locks.query("key")).waiterCount === 1);
    controller.abort();
    await assertRejects(() => asking);
    await waitUntil("it has left", async () => (await locks.query("key")).waiterCount === 0);
    await lease.release();
    assertEquals([await isHeld(locks), handled], [false, 0]);
  },
);

for (const platform of PLATFORMS) {
  registerTest(
    `@Lock() reports what fails when the lease is lost after the response has begun, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const bug = new Error("A bug");
      const errors: unknown[] = [];
      let reason: unknown;
      let stopped = 0;
      const handlers = {
        async sends(lease: Lease, response: { send(body: string): unknown }) {
          response.send("all of it");
          await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
          reason = lease.signal.reason;
          throw bug;
        },
        events: (lease: Lease) =>
          new Observable((subscriber) => {
            subscriber.next({ data: "1" });
            lease.signal.addEventListener("abort", () => subscriber.error(lease.signal.reason));
            return () => stopped++;
          }),
      };
      const maxHoldMs = scaled(400); // the response must begin before
      const options = { key: "key", maxHoldMs, onError: (e: unknown) => errors.push(e) };
      const Routes = controllerOf(handlers, Lock(options));
      decorate(Routes, "events", Sse("events"));
      for (const name of Object.keys(handlers)) HeldLease()(Routes.prototype, name, 0);
      Res()(Routes.prototype, "sends", 1);
      await using server = await serveNest(locks, [Routes], platform);
      assertEquals(await ask(`${server.url}/sends`), [200, "all of it"]);
      await waitUntil("both are reported", () => errors.length >= 2);
      assertEquals(errors, [reason, bug]);
      await untilFree(locks);
      await assertRejects(() => ask(`${server.url}/events`));
      await waitUntil("the observable has ended", () => stopped === 1);
      assertEquals((await ask(`${server.url}/missing`))[0], 404);
      const others = errors.slice(2).filter((error) => !(error instanceof LeaseLostError));
      assertEquals(others, []);
      await untilFree(locks);
    },
  );

  registerTest(
    `@Lock() keeps its 503 when the late answer of a handler cannot be destroyed, on ${platform}`,
    async () => {
      await using locks = new MemoryLock();
      const errors: unknown[] = [];
      const answered = Promise.withResolvers<void>();
      const bug = new Error("A bug");
      const Routes = controllerOf({
        async a() {
          await locks.request("key", { steal: true }, () => {});
          await answered.promise;
          return {
            pipe() {},
            destroy() {
              throw bug;
            },
          };
        },
      }, Lock({ key: "key", onError: (error) => errors.push(error) }));
      await using server = await serveNest(locks, [Routes], platform);
      assertEquals((await ask(`${server.url}/a`))[0], 503);
      answered.resolve();
      await waitUntil("both are reported", () => errors.length >= 2);
      assertEquals((await ask(`${server.url}/missing`))[0], 404);
      assertEquals(errors.slice(1), [bug]);
    },
  );
}

registerTest(
  "@Lock() reports what an observable throws at its end after the loss, and the process goes on",
  async () => {
    await using locks = new MemoryLock();
    const errors: unknown[] = [];
    const answered = Promise.withResolvers<void>();
    const bug = new Error("A bug");
    const late = async () => {
      await locks.request("key", { steal: true }, () => {});
      await answered.promise;
      return "too late";
    };
    const fail = () => {
      throw bug;
    };
    const Routes = controllerOf(
      { a: () => concat(late(), NEVER).pipe(finalize(fail)) },
      Lock({ key: "key", onError: (error) => errors.push(error) }),
    );
    await using server = await serveNest(locks, [Routes]);
    assertEquals((await ask(`${server.url}/a`))[0], 503);
    answered.resolve();
    await waitUntil("both are reported", () => errors.length >= 2);
    assertEquals((errors[1] as UnsubscriptionError).errors, [bug]);
    assertEquals((await ask(`${server.url}/missing`))[0], 404);
  },
);
