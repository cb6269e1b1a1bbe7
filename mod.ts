/**
 * Distributed locks: one interface, {@linkcode DistributedLock}, over Redis, ZooKeeper, files and memory. This entry
 * exports it, the errors and {@linkcode MemoryLock}; the other strategies are in `./file`, `./redis`, `./zookeeper`.
 *
 * A lease is never believed longer than the server keeps it; the fencing token lets the resource reject a late write.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const result = await locks.request("orders:42", (lease) => {
 *   lease.throwIfLost();
 *   return "paid";
 * });
 * assertEquals(result, "paid");
 * ```
 *
 * @module
 */
export { type AcquireEvent, CHANNELS, type HoldEvent } from "./core/contract/channels.ts";
export type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachableLock,
  AttachableRequestOptions,
  AttachOptions,
  DistributedLock,
  Lease,
  ListableLock,
  ListOptions,
  LockCapabilities,
  LockHolder,
  LockMode,
  LockSnapshot,
  LockWaiter,
  QueryOptions,
  RenewalLate,
  RequestMethod,
  RequestOptions,
  WaitInfo,
} from "./core/contract/distributed_lock.ts";
export {
  LeaseLostError,
  type LeaseLostReason,
  LockError,
  type LockErrorCode,
  LockSetupError,
  LockTimeoutError,
  LockUnavailableError,
} from "./core/contract/errors.ts";
export {
  acquireAll,
  type AcquireAllOptions,
  type LockEntry,
  requestAll,
  tryAcquireAll,
} from "./core/sets/acquire_all.ts";
export type { LeaseSet } from "./core/sets/lease_set.ts";
export type { StrategyOptions } from "./core/lease/lifetime.ts";
export { MemoryLock } from "./memory/memory_lock.ts";
