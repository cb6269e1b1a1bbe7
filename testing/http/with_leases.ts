/**
 * A lock whose leases a test can change.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../mod.ts";

/** Wraps a lock: changes each lease of `tryAcquire()` before it is returned. */
export function withLeases(
  inner: DistributedLock,
  change: (lease: Lease) => Lease,
): DistributedLock {
  return {
    capabilities: inner.capabilities,
    acquire: (...args) => inner.acquire(...args),
    request: (...args: unknown[]) => (inner.request as (...args: unknown[]) => never)(...args),
    query: (name) => inner.query(name),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
    async tryAcquire(name, options) {
      const lease = await inner.tryAcquire(name, options);
      return lease && change(lease);
    },
  };
}
