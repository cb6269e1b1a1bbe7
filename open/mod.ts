/**
 * Opens a lock by a URL: one line from an environment variable to a `DistributedLock`.
 *
 * @example Usage
 * ```ts
 * import { openLock } from "@holdfast/lock/open";
 *
 * await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "memory:");
 * await using lease = await locks.acquire("orders:42");
 * lease.throwIfLost();
 * ```
 *
 * @module
 */
export { openLock } from "./open_lock.ts";
export type { OpenLockOptions } from "./options.ts";
