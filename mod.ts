/**
 * Distributed locks: one interface, {@linkcode DistributedLock}, over Redis, ZooKeeper, files and
 * memory. This entry exports the interface, the errors and {@linkcode MemoryLock}; the other
 * strategies have their own entries (`./file`, `./redis`, `./zookeeper`).
 *
 * A lease is never believed longer than the server keeps it. A holder that still writes too late is
 * rejected by the resource, with the help of the fencing token.
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
  AttachableLeaseOptions,
  AttachableLock,
  AttachableRequestOptions,
  AttachOptions,
  DistributedLock,
  Lease,
  LeaseOptions,
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
  type LockErrorOptions,
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
export { MemoryLock, type MemoryLockOptions } from "./memory/memory_lock.ts";
