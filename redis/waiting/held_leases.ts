/**
 * The leases of each lock on one client: a later grant ends the earlier lease in the same process at
 * once. How leases elsewhere are notified is in `waiters.ts`.
 *
 * @module
 */
import type { ManagedLease } from "../../core/lease.ts";
import type { RedisClient } from "../client.ts";

/** The last lease of a lock. */
interface HeldLease {
  /** The owner value. */
  readonly value: string;
  readonly lease: ManagedLease;
  readonly owner: HeldLeases;
}

/** By lock key. All `RedisLock`s on one client share them. */
const leasesOf = new WeakMap<RedisClient, Map<string, HeldLease>>();

/** The leases of one `RedisLock`, which knows those of others on the same client. */
export class HeldLeases {
  readonly #leases: Map<string, HeldLease>;

  constructor(client: RedisClient) {
    this.#leases = leasesOf.get(client) ?? new Map();
    leasesOf.set(client, this.#leases);
  }

  /** The lock was granted to `value`. If an earlier grant has a lease here, that lease is stolen. */
  onGrant(lockKey: string, value: string, fencingToken: bigint): void {
    const held = this.#leases.get(lockKey);
    if (held === undefined || held.value === value) return;
    if (held.lease.fencingToken < fencingToken) held.lease.lose("stolen");
  }

  /** Whether a later grant than this one has a lease here. */
  hasLater(lockKey: string, fencingToken: bigint): boolean {
    const lease = this.#leases.get(lockKey)?.lease;
    return lease !== undefined && lease.fencingToken > fencingToken && lease.remainingMs > 0;
  }

  /** Adds a lease that was just opened. A later grant may have been answered since: then it is stolen. */
  add(lockKey: string, value: string, lease: ManagedLease): void {
    if (this.hasLater(lockKey, lease.fencingToken)) return lease.lose("stolen");
    this.onGrant(lockKey, value, lease.fencingToken);
    this.#leases.set(lockKey, { value, lease, owner: this });
  }

  /** Removes the lease of an owner value. Does nothing if a later lease has replaced it. */
  remove(lockKey: string, value: string): void {
    if (this.#leases.get(lockKey)?.value === value) this.#leases.delete(lockKey);
  }

  /** How many leases of this `RedisLock` there are. */
  get count(): number {
    let count = 0;
    for (const { owner } of this.#leases.values()) if (owner === this) count++;
    return count;
  }

  /** Removes the leases of this `RedisLock`. */
  clear(): void {
    for (const [lockKey, { owner }] of this.#leases) {
      if (owner === this) this.#leases.delete(lockKey);
    }
  }
}
