/**
 * Locks on ZooKeeper, first in, first out over all processes. The client is
 * `npm:node-zookeeper-client`, which only this entry loads; the only permission needed is `--allow-net`.
 *
 * @example Usage
 * ```ts ignore
 * import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
 *
 * await using locks = new ZooKeeperLock("zk1:2181,zk2:2181,zk3:2181", { label: "billing-1" });
 * await locks.request("orders:42", async (lease) => {
 *   await fetch("https://example.com/pay", { signal: lease.signal });
 * });
 * ```
 *
 * @module
 */
export type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RenewalLate,
  RequestOptions,
  WaitInfo,
} from "../core/contract/distributed_lock.ts";
export type { StrategyOptions } from "../core/lease/lifetime.ts";
export { ZooKeeperLock } from "./zookeeper_lock.ts";
export { type ZooKeeperLockOptions } from "./options.ts";
export type { ZooKeeperTls } from "./connection/tls.ts";
export type { ZooKeeperAuth } from "./connection/transport.ts";
