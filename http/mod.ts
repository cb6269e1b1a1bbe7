/**
 * Locks around Fetch API handlers, for `Deno.serve` and `export default { fetch }`. Other frameworks
 * have entries of their own: `./http/express`, `./http/koa`, `./http/fastify`, `./http/hono` and
 * `./http/lambda`.
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
export {
  type FetchHandler,
  fetchLock,
  type FetchLockOptions,
  type LeaseHandler,
  type OptionalFetchLockOptions,
} from "./fetch.ts";
export { type HoldOptions, type LockKey, NO_LOCK, type NoLock } from "./internal/options.ts";
export { PROBLEM_TYPE } from "./shared/problem.ts";
export type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
