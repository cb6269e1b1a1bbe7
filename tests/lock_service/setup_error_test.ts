import { assertEquals, assertRejects } from "@std/assert";
import { block } from "../../testing/conformance/bounds.ts";
import Fastify from "fastify";
import { lockRoutes, type LockRoutesOptions } from "../../lock_service/mod.ts";
import { type AttachableLock, LockError, LockSetupError, LockUnavailableError } from "../../mod.ts";

/** A lock on which every call fails. */
function failing(error: Error): AttachableLock {
  return {
    capabilities: {
      fifo: "global",
      endsBy: "ttl",
      steal: true,
      attach: true,
      shared: false,
      limit: false,
      list: false,
    },
    acquire: () => Promise.reject(error),
    tryAcquire: () => Promise.reject(error),
    attach: () => Promise.reject(error),
    request: () => Promise.reject(error),
    query: () => Promise.reject(error),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

Deno.test("lockRoutes() answers 500 to a LockSetupError, shows nothing of it and reports it", async () => {
  const setup = new LockSetupError(
    "Cannot use the Redis client at 10.0.0.1: it was never connected",
  );
  const errors: unknown[] = [];
  const app = Fastify();
  const onError = (error: unknown) => void errors.push(error);
  app.register(lockRoutes, { lock: failing(setup), authorize: () => "alice", onError });
  const requests = [["PUT", "/lock/k/i"], ["PATCH", "/lock/k/i"], ["DELETE", "/lock/k/i"], [
    "GET",
    "/lock/k",
  ]] as const;
  for (const [method, url] of requests) {
    const response = await app.inject({ method, url });
    assertEquals([response.statusCode, response.json()], [500, {
      type: "urn:holdfast:problem:internal",
      title: "Internal error",
      status: 500,
    }]);
  }
  assertEquals(errors, requests.map(() => setup));
  await app.close();
});

Deno.test("lockRoutes() answers 503, and the process goes on, when an async onError rejects", async () => {
  const app = Fastify();
  const onError = () => Promise.reject(new Error("The log is full"));
  const lock = failing(new LockUnavailableError("Cannot reach Redis"));
  app.register(lockRoutes, { lock, authorize: () => "alice", onError });
  for (const method of ["PUT", "DELETE"] as const) {
    assertEquals((await app.inject({ method, url: "/lock/k/i" })).statusCode, 503);
  }
  await app.close();
});

Deno.test("lockRoutes() answers 409 to a request that another one of its id has ended, and reports nothing", async () => {
  const errors: unknown[] = [];
  const app = Fastify();
  const onError = (error: unknown) => void errors.push(error);
  const lock = failing(new LockError("Cannot acquire the lock: its owner id asks already"));
  app.register(lockRoutes, { lock, authorize: () => "alice", onError });
  const methods = ["PUT", "PATCH", "DELETE"] as const;
  const requests = methods.map((method) => app.inject({ method, url: `/lock/k/${method}` }));
  for (const response of await Promise.all(requests)) {
    const { type, detail } = response.json();
    assertEquals([response.statusCode, type], [409, "urn:holdfast:problem:in-progress"]);
    // True as well after a reconnect, when Redis refuses what the client has sent before.
    assertEquals(detail, "The request could not be done just now: repeat it");
  }
  assertEquals(errors, []);
  await app.close();
});

Deno.test("lockRoutes() does not start a wait when the first try has used up 'waitMs'", async () => {
  const waits: unknown[] = [];
  const lock: AttachableLock = {
    ...failing(new Error("Not needed here")),
    tryAcquire(_name, options) {
      waits.push(options?.waitMs);
      block(20);
      return Promise.resolve(null);
    },
  };
  const app = Fastify();
  app.register(lockRoutes, { lock, authorize: () => "alice" });
  const response = await app.inject({ method: "PUT", url: "/lock/k/i", body: { waitMs: 10 } });
  assertEquals([response.statusCode, response.json().title], [409, "Busy"]);
  assertEquals(waits, [undefined]);
  await app.close();
});

Deno.test("lockRoutes() throws on options that no request could be answered with", async () => {
  const lock = failing(new Error("Not needed here"));
  const authorize = () => "alice";
  const bad: [options: object, ErrorClass: ErrorConstructor, message: string][] = [
    [{ lock, authorize, challenge: 'Bearer\r\nX-Admin: "1"' }, RangeError, "'challenge'"],
    [{ lock, authorize, challenge: 1 }, TypeError, "'challenge'"],
    [{ lock }, TypeError, "'authorize'"],
    [{ lock, authorize: "alice" }, TypeError, "'authorize'"],
    [{ authorize }, TypeError, "'attach'"],
    [{ lock: {}, authorize }, TypeError, "'attach'"],
  ];
  for (const [options, ErrorClass, message] of bad) {
    const app = Fastify();
    const register = async () => void await app.register(lockRoutes, options as LockRoutesOptions);
    await assertRejects(register, ErrorClass, message);
    await app.close();
  }
});
