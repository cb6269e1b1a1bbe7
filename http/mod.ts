/**
 * Locks around Fetch API handlers, for `Deno.serve` and `export default { fetch }`. Other frameworks have entries of
 * their own: `./http/express`, `./http/koa`, `./http/fastify`, `./http/hono`, `./http/lambda` and `./http/nestjs`.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { fetchLock } from "@holdfast/lock/http";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const handler = fetchLock(locks, { key: "nightly-report" })(() => new Response("done"));
 * assertEquals((await handler(new Request("http://localhost/"))).status, 200);
 * ```
 *
 * @module
 */
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { acquireForFetch, respondUnderLease } from "./internal/fetch_response.ts";
import {
  checkLock,
  HANDLER_OPTIONS,
  type HoldOptions,
  type LockKey,
  readOptions,
} from "./internal/options.ts";
import { keyOf } from "./internal/request.ts";

export { type HoldOptions, type LockKey, NO_LOCK, type NoLock } from "./internal/options.ts";
export { PROBLEM_TYPE } from "./shared/problem.ts";
export type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";

/** Options of {@linkcode fetchLock} for handlers that always have a lease. */
export interface FetchLockOptions extends HoldOptions {
  /** The name of the lock for a request. */
  key: LockKey<[request: Request], string>;
  /** As in {@linkcode HoldOptions}. For `"proceed"` use {@linkcode OptionalFetchLockOptions}. */
  onUnavailable?: "reject";
}

/** Options of {@linkcode fetchLock} for handlers that may run without a lease. */
export interface OptionalFetchLockOptions extends HoldOptions {
  /** The name of the lock for a request; {@linkcode NO_LOCK} if it needs none. */
  key: LockKey<[request: Request]>;
}

/**
 * Wraps a handler so that at most one request per key runs in it, across all processes.
 *
 * A request that does not get the lock within `waitMs` gets 409 with `Retry-After`, and 503 if the lock
 * service is out of reach. The lock is held until the response is complete; with a stream, until it has been
 * read to its end, is cancelled, or fails. A client that disconnects while it waits leaves the queue. Once the
 * handler runs, it keeps the lock to its end even if the client disconnects (`request.signal` aborts then). If
 * the lease is lost, `lease.signal` aborts and the response is a 503, or is broken off if it has begun.
 *
 * A request that locks the same key twice rejects at once, as it would wait for itself. A WebSocket is not under
 * the lock, which is released when the connection is upgraded: use `locks.request()` in the socket's handler.
 *
 * @param lock Any strategy.
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @returns A function that wraps a handler: the handler gets the lease after the request, then the server's other
 * arguments.
 * @throws {TypeError|RangeError} If an option is bad.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { fetchLock } from "@holdfast/lock/http";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const order = new URLPattern({ pathname: "/orders/:id([1-9][0-9]*)" });
 * const handler = fetchLock(locks, {
 *   key({ url }) {
 *     const id = order.exec(url)?.pathname.groups.id;
 *     if (id === undefined) throw Object.assign(new Error("No such order"), { statusCode: 404 });
 *     return `orders:${id}`; // not the URL: an order has many, and must have one lock
 *   },
 *   waitMs: 2_000,
 * })((_request, lease) => new Response(`done under token ${lease.fencingToken}`));
 *
 * const response = await handler(new Request("http://localhost/orders/42", { method: "POST" }));
 * assertEquals(await response.text(), "done under token 1");
 * ```
 */
export function fetchLock(
  lock: DistributedLock,
  options: FetchLockOptions | string,
): <Rest extends unknown[]>(
  handler: (request: Request, lease: Lease, ...rest: Rest) => Response | Promise<Response>,
) => (request: Request, ...rest: Rest) => Promise<Response>;
/** The same for handlers that may run without a lease, by {@linkcode NO_LOCK} or by `onUnavailable: "proceed"`. */
export function fetchLock(
  lock: DistributedLock,
  options: OptionalFetchLockOptions,
): <Rest extends unknown[]>(
  handler: (
    request: Request,
    lease: Lease | undefined,
    ...rest: Rest
  ) => Response | Promise<Response>,
) => (request: Request, ...rest: Rest) => Promise<Response>;
export function fetchLock(
  lock: DistributedLock,
  options: OptionalFetchLockOptions | string,
): <Rest extends unknown[]>(
  handler: (request: Request, lease: Lease, ...rest: Rest) => Response | Promise<Response>,
) => (request: Request, ...rest: Rest) => Promise<Response> {
  checkLock("the first argument of fetchLock()", lock, options);
  const settings = readOptions("fetchLock()", options, HANDLER_OPTIONS);
  return (handler) =>
    async function fetchLock(request, ...rest) {
      const key = keyOf(settings.key, request);
      const lease = await acquireForFetch(lock, settings, request, key);
      if (lease instanceof Response) return lease;
      // The types allow these options only with a handler that accepts `undefined`.
      if (lease === null) return await handler(request, undefined!, ...rest);
      const respond = () => handler(request, lease, ...rest);
      return await respondUnderLease(lease, settings, request, respond);
    };
}
