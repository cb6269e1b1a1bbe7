import { assertEquals } from "@std/assert";
import Fastify from "fastify";
import { lockRoutes } from "../../lock_service/mod.ts";
import { type AttachableLock, LockSetupError } from "../../mod.ts";

/** A lock on which every call fails. */
function failing(error: Error): AttachableLock {
  return {
    capabilities: { fifo: "global", endsBy: "ttl", steal: true, attach: true, shared: false },
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
