import { PassThrough, type Readable } from "node:stream";
import { SYSTEM_CLOCK } from "../core/time/clock.ts";
import type { Problem } from "../http/shared/problem.ts";
import type { LockRoutesApp, LockRoutesReply } from "./fastify_types.ts";
import { actions } from "./lock_actions.ts";
import { type LockRoutesOptions, readOptions } from "./options.ts";
import { Puts } from "./puts.ts";
import { bodyTimeout, isBodyError, problemOf, RequestError } from "./request_error.ts";

/** The largest body, in bytes. */
const BODY_LIMIT = 4_096;
/** Without one of these headers Fastify reads no body. */
const BODY_HEADERS = ["content-length", "transfer-encoding", "content-type"];

/**
 * A Fastify plugin that serves locks over HTTP:
 *
 * - `PUT /lock/:key/:id` acquires a lock: 200 with `fencingToken` (a string) and `remainingMs`, or 409
 *   with `Retry-After` and the holder's `remainingMs`;
 * - `PATCH` on the same URL renews it, and `DELETE` releases it: 404 if it is not held under this `:id`;
 * - `GET /lock/:key` returns whether the lock is held (`held`), the holder's `fencingToken` and `remainingMs`, and
 *   the number of waiters (`waiterCount`).
 *
 * Bodies are JSON: `ttlMs` for `PUT` and `PATCH`, `waitMs` for `PUT`, both whole numbers of ms. A key is
 * any lock name of up to 1,000 characters, percent-encoded; an id is 1 to 128 of `A-Z a-z 0-9 . _ ~ -`.
 * All errors are `application/problem+json`: 400 for a request that the client must not repeat, 503 if
 * it is not known whether anything was done.
 *
 * Leases belong to the caller, not to this process. They expire after their TTL unless they are renewed, and
 * outlive the server: another server on the same Redis continues them, under a greater token. The owner of a
 * lease is the principal that `authorize` returns, together with `:id`. Every request can be repeated: a
 * `PUT` whose answer was lost gets the lease again, and after a `DELETE` with 404 nothing is left to release.
 *
 * @param app The Fastify instance. The routes are below its prefix.
 * @param options The lock, the authorization, and limits.
 * @throws {TypeError} If there is no `authorize`, or if the lock's strategy has no `attach`.
 * @throws {RangeError} If a limit is bad.
 *
 * @example Without a socket, as in a test
 * ```ts ignore
 * import { lockRoutes } from "@holdfast/lock/lock-service";
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { ioredis } from "@holdfast/lock/redis/ioredis";
 * import Fastify from "fastify";
 * import { Redis } from "ioredis";
 * import { assertEquals } from "@std/assert";
 *
 * const client = new Redis("redis://127.0.0.1:6379").on("error", console.error);
 * const lock = new RedisLock(ioredis(client));
 * const app = Fastify();
 * await app.register(lockRoutes, { lock, authorize: () => "billing", maxTtlMs: 60_000 });
 *
 * const url = "/lock/orders:42/9f3c";
 * assertEquals((await app.inject({ method: "PUT", url })).statusCode, 200);
 * assertEquals((await app.inject({ method: "GET", url: "/lock/orders:42" })).json().held, true);
 * assertEquals((await app.inject({ method: "DELETE", url })).json().released, true);
 *
 * await app.close();
 * await lock[Symbol.asyncDispose]();
 * client.disconnect();
 * ```
 */
// deno-lint-ignore require-await -- Fastify expects an async plugin, or one with a callback
export async function lockRoutes(
  app: LockRoutesApp,
  options: LockRoutesOptions,
): Promise<void> {
  const settings = readOptions(options);
  const { maxBodyMs, report } = settings;
  const puts = new Puts();
  // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
  app.addHook("preClose", async () => puts.close());
  // Ends requests with 408 whose body has not arrived in time. Fastify parses nothing of it then.
  // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
  app.addHook("preParsing", async ({ headers }, _reply, payload) => {
    const hasBody = BODY_HEADERS.some((name) => headers[name] !== undefined);
    return hasBody ? limited(payload, maxBodyMs) : payload;
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, _request, reply) => {
    if (isBodyError(error) || error instanceof RequestError) {
      return sendProblem(reply, problemOf(error, report));
    }
    throw error; // of another plugin, such as a rate limit: the handler above ours answers it
  });
  for (const [method, action] of Object.entries(actions)) {
    app.route({
      method: method as keyof typeof actions,
      // Not ":key": Fastify limits that to 100 characters, and decodes it before we can split the path.
      url: "/lock/*",
      bodyLimit: BODY_LIMIT,
      async handler(request, reply) {
        let result: unknown;
        try {
          result = await action({ request, response: reply.raw, settings }, puts);
        } catch (error) {
          return sendProblem(reply, problemOf(error, report));
        }
        reply.headers({ "cache-control": "no-store" });
        return reply.send(result);
      },
    });
  }
}

function sendProblem(reply: LockRoutesReply, { status, headers, body }: Problem): unknown {
  reply.code(status);
  reply.headers({ ...headers });
  return reply.send(body);
}

/** A copy of a body. It fails at the time limit: if the body itself did, the client would get no answer. */
function limited(body: Readable, maxBodyMs: number): Readable {
  const copy = new PassThrough();
  const cancel = SYSTEM_CLOCK.schedule(() => {
    body.unpipe(copy);
    copy.destroy(bodyTimeout(maxBodyMs));
  }, maxBodyMs);
  copy.on("error", () => {}); // Fastify does not read the bodies of all requests
  body.on("end", cancel).on("error", (error) => copy.destroy(error)).on("close", cancel);
  return body.pipe(copy);
}
