/**
 * Hooks of other plugins on the lock routes, requests that `authorize` does not know, and the methods that a
 * path allows.
 */
import { assertEquals } from "@std/assert";
import Fastify, { type FastifyInstance } from "fastify";
import { lockRoutes, type LockRoutesOptions } from "../../lock_service/mod.ts";
import { type AttachableLock, MemoryLock } from "../../mod.ts";

/** A lock of the right kind, on which no call is expected. */
function unusedLock(): AttachableLock {
  const lock = new MemoryLock();
  return Object.assign(lock, {
    capabilities: { ...lock.capabilities, attach: true },
    attach: () => Promise.reject(new Error("Not expected")),
  });
}

const URLS = [["PUT", "/lock/k/i"], ["PATCH", "/lock/k/i"], ["DELETE", "/lock/k/i"], [
  "GET",
  "/lock/k",
]] as const;

async function withRoutes(
  options: Partial<LockRoutesOptions>,
  prepare: (app: FastifyInstance) => void,
  test: (app: FastifyInstance, errors: unknown[]) => Promise<void>,
): Promise<void> {
  const app = Fastify();
  const errors: unknown[] = [];
  prepare(app);
  const onError = (error: unknown) => void errors.push(error);
  app.register(lockRoutes, { lock: unusedLock(), authorize: () => "alice", onError, ...options });
  await test(app, errors);
  await app.close();
}

Deno.test("lockRoutes() passes on the 429 and 503 of other plugins unchanged", async () => {
  // As @fastify/rate-limit and @fastify/under-pressure do it.
  for (
    const [statusCode, message] of [[429, "Rate limit exceeded"], [503, "Under pressure"], [
      418,
      "Tea",
    ]] as const
  ) {
    const limits = (app: FastifyInstance) => {
      app.addHook("onRequest", (_request, reply, done) => {
        reply.headers({ "retry-after": "42", "x-ratelimit-limit": "7" });
        done(Object.assign(new Error(message), { statusCode, code: "OTHER" }));
      });
      app.get("/other", () => "never");
    };
    await withRoutes({}, limits, async (app, errors) => {
      const other = await app.inject({ url: "/other" });
      for (const [method, url] of URLS) {
        const { statusCode: status, headers, body } = await app.inject({ method, url });
        assertEquals([status, body], [statusCode, other.body]);
        assertEquals([headers["retry-after"], headers["x-ratelimit-limit"]], ["42", "7"]);
        assertEquals(headers["content-type"], other.headers["content-type"]);
      }
      assertEquals(errors, []);
    });
  }
});

Deno.test("lockRoutes() leaves other plugins' errors to the error handler of the instance above", async () => {
  const handled: string[] = [];
  const prepare = (app: FastifyInstance) => {
    app.setErrorHandler((error: Error, _request, reply) => {
      handled.push(error.message);
      return reply.code(599).send("own");
    });
    app.addHook("preHandler", (_request, _reply, done) => done(new RangeError("not the client's")));
  };
  await withRoutes({}, prepare, async (app) => {
    for (const [method, url] of URLS) {
      assertEquals((await app.inject({ method, url })).body, "own");
    }
    assertEquals(handled, URLS.map(() => "not the client's"));
    // A body that is too large is the routes' own problem.
    const large = await app.inject({ method: "PUT", url: "/lock/k/i", body: "x".repeat(5_000) });
    assertEquals([large.statusCode, large.json().type], [413, "urn:holdfast:problem:bad-request"]);
  });
});

Deno.test("lockRoutes() answers 401 with WWW-Authenticate when authorize knows no principal, and 403 to null", async () => {
  const tokens = new Map([["Bearer s3cret", "billing"]]);
  const none = (_app: FastifyInstance) => {};
  const authorize: LockRoutesOptions["authorize"] = ({ headers }) =>
    tokens.get(String(headers.authorization));
  for (
    const [challenge, expected] of [[undefined, "Bearer"], [
      'Basic realm="locks"',
      'Basic realm="locks"',
    ]] as const
  ) {
    const options = { authorize, ...challenge && { challenge } };
    await withRoutes(options, none, async (app, errors) => {
      for (const authorization of ["", "Bearer wrong", "Basic s3cret"]) {
        for (const [method, url] of URLS) {
          const answer = await app.inject({ method, url, headers: { authorization } });
          assertEquals([answer.statusCode, answer.headers["www-authenticate"]], [401, expected]);
          assertEquals(answer.json().type, "urn:holdfast:problem:forbidden");
        }
      }
      assertEquals(errors, []);
    });
  }
  await withRoutes({ authorize: () => null }, none, async (app) => {
    const { statusCode, headers } = await app.inject({ method: "PUT", url: "/lock/k/i" });
    assertEquals([statusCode, headers["www-authenticate"]], [403, undefined]);
  });
  const thrown = () => {
    throw Object.assign(new Error("Say who you are"), { statusCode: 401 });
  };
  await withRoutes({ authorize: thrown }, none, async (app) => {
    const { statusCode, headers } = await app.inject({ method: "PUT", url: "/lock/k/i" });
    assertEquals([statusCode, headers["www-authenticate"]], [401, "Bearer"]);
  });
});

Deno.test("lockRoutes() answers 405 with the methods that a path allows", async () => {
  await withRoutes({}, () => {}, async (app) => {
    const paths = {
      "/lock/k": "GET, HEAD",
      "/lock/k/": "GET, HEAD",
      "/lock/k/i": "PUT, PATCH, DELETE",
      "/lock/k/i/": "PUT, PATCH, DELETE",
    };
    for (const [url, allow] of Object.entries(paths)) {
      const { statusCode, headers } = await app.inject({ method: "POST", url });
      assertEquals([statusCode, headers.allow], [405, allow], url);
      const { statusCode: got } = await app.inject({ method: "GET", url });
      assertEquals(got, allow === "GET, HEAD" ? 200 : 405, url);
    }
    const { statusCode } = await app.inject({ method: "POST", url: "/lock/k/i/more" });
    assertEquals(statusCode, 404);
  });
});
