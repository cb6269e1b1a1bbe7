/**
 * Helpers for resources that reject stale fencing tokens. A lock alone cannot protect a resource: its
 * holder may be suspended right before it writes, for longer than its lease. In SQL no helper is
 * needed, the check is part of the statement: `update … set …, fence = $1 where … and fence <= $1`.
 *
 * @example A service that rejects late holders
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { fencedHttp, fenceHeader, MemoryFences } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * const order = new URLPattern({ pathname: "/orders/:id([1-9][0-9]*)" });
 * const resourceOf = ({ url }: Request) => {
 *   const id = order.exec(url)?.pathname.groups.id;
 *   if (id === undefined) throw Object.assign(new Error("No such order"), { statusCode: 404 });
 *   return `orders:${id}`;
 * };
 * const handler = fencedHttp(new MemoryFences(), resourceOf)(
 *   (_request, token) => new Response(`written under ${token}`),
 * );
 *
 * await using locks = new MemoryLock();
 * const late = await locks.acquire("orders:42");
 * await late.release();
 * const lease = await locks.acquire("orders:42");
 * const put = (headers: HeadersInit) =>
 *   handler(new Request("http://localhost/orders/42", { method: "PUT", headers }));
 * assertEquals((await put(fenceHeader(lease))).status, 200);
 * assertEquals((await put(fenceHeader(late))).status, 412);
 * ```
 *
 * @module
 */
export { checkToken, type FenceStore, MemoryFences, StaleTokenError } from "./fences.ts";
export { FENCE_HEADER, fencedHttp, type FencedHttpOptions, fenceHeader } from "./http.ts";
export { type FencedRedis, fencedRedis, type FencedRedisOptions } from "./redis.ts";
export type { Lease } from "../core/contract/distributed_lock.ts";
export type { RedisClient } from "../redis/client.ts";
