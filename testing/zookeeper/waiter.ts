/**
 * Waiting calls for tests.
 *
 * @module
 */
import type { Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";

/** A call of `acquire()` that waits in the queue, or has its lease already. */
export interface Waiter {
  readonly lease: Promise<Lease>;
  abort(): void;
}

/** Makes a root path that no other test uses. */
export function newRoot(): string {
  return `/test-${crypto.randomUUID()}`;
}

/** Calls `acquire()`; resolves when the call waits in the queue, or has its lease. */
export async function waiter(locks: ZooKeeperLock, name: string): Promise<Waiter> {
  const controller = new AbortController();
  const waiting = Promise.withResolvers<void>();
  const lease = locks.acquire(name, {
    signal: controller.signal,
    onWait: () => waiting.resolve(),
  });
  lease.catch(() => {});
  await Promise.race([waiting.promise, lease]);
  return { lease, abort: () => controller.abort() };
}
