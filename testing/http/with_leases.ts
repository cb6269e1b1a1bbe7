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

/** How long in ms a response waits for its release. */
const RESPONSE_WAITS_MS = 1_000;

/** A lock whose releases wait for a gate. */
export function slowReleases(inner: DistributedLock) {
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  let firstMs = Infinity;
  const lock = withLeases(inner, (lease) => {
    const release = lease.release.bind(lease);
    return Object.defineProperty(lease, "release", {
      value() {
        if (++asked === 1) firstMs = performance.now();
        return gate.promise.then(release);
      },
    });
  });
  return {
    lock,
    open: gate.resolve,
    asked: () => asked,
    /** Whether the response of the first release may have ended without it. */
    isLate: () => performance.now() - firstMs >= RESPONSE_WAITS_MS,
  };
}
