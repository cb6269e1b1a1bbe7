/**
 * Opens locks on a ZooKeeper ensemble.
 *
 * @module
 */
import { ZooKeeperLock } from "@holdfast/lock/zookeeper";
import type { BackendOf, OpenLock } from "../open_lock.ts";

/** How long in ms a dead holder blocks the others; the ensemble may enforce other limits. */
const SESSION_TIMEOUT_MS = 2_000;

/** Opens the lock; its session begins with the first call. */
export function open({ connectString, rootPath }: BackendOf<"zookeeper">): Promise<OpenLock> {
  const locks = new ZooKeeperLock(connectString, {
    rootPath,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
  });
  return Promise.resolve({ locks, [Symbol.asyncDispose]: () => locks[Symbol.asyncDispose]() });
}
