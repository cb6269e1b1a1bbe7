/**
 * The leases of each lock on one client: a later grant ends the earlier lease in the same process at
 * once. How leases elsewhere are notified is in `waiters.ts`.
 *
 * @module
 */
import type { ManagedLease } from "../../core/lease/lease.ts";
import type { RedisClient } from "../client.ts";

/** The last lease of a lock. */
interface HeldLease {
  /** The owner value. */
  value: string;
  /** `null` if the lease has ended: a later lease of the same lock finds its place here. */
  lease: ManagedLease | null;
  owner: HeldLeases | null;
}

/** The leases of all locks on one client. */
interface ClientLeases {
  /** By lock key. */
  readonly places: Map<string, HeldLease>;
  /** How many places are without a lease. */
  emptyCount: number;
}

/**
 * So many places without a lease stay, or as many as there are leases. Most locks are taken again and again, and deleting and adding the
 * entry of a `Map` costs as much as half of all else in a cycle, most of it in the garbage collector.
 */
const MIN_EMPTY = 256;

/** All `RedisLock`s on one client share them. */
const leasesOf = new WeakMap<RedisClient, ClientLeases>();

/** The leases of one `RedisLock`, which knows those of others on the same client. */
export class HeldLeases {
  readonly #all: ClientLeases;

  constructor(client: RedisClient) {
    this.#all = leasesOf.get(client) ?? { places: new Map(), emptyCount: 0 };
    leasesOf.set(client, this.#all);
  }

  /** The lock was granted to `value`. If an earlier grant has a lease here, that lease is stolen. */
  onGrant(lockKey: string, value: string, fencingToken: bigint): void {
    const held = this.#all.places.get(lockKey);
    if (held === undefined || held.lease === null || held.value === value) return;
    if (held.lease.fencingToken < fencingToken) held.lease.lose("stolen");
  }

  /** The lock was stolen from `value`. */
  onStolen(lockKey: string, value: string): void {
    const held = this.#all.places.get(lockKey);
    if (held?.value === value) held.lease?.lose("stolen");
  }

  /** Whether the last lease of the lock is that of this owner value, released perhaps, but unanswered. */
  has(lockKey: string, value: string): boolean {
    const held = this.#all.places.get(lockKey);
    return held !== undefined && held.lease !== null && held.value === value;
  }

  /** Whether a later grant than this one has a lease here. */
  hasLater(lockKey: string, fencingToken: bigint): boolean {
    const lease = this.#all.places.get(lockKey)?.lease ?? null;
    return lease !== null && lease.fencingToken > fencingToken && lease.remainingMs > 0;
  }

  /** Adds a lease that was just opened. A later grant may have been answered since: then it is stolen. */
  add(lockKey: string, value: string, lease: ManagedLease): void {
    const held = this.#all.places.get(lockKey);
    if (held === undefined) {
      this.#all.places.set(lockKey, { value, lease, owner: this });
      return;
    }
    if (this.hasLater(lockKey, lease.fencingToken)) return lease.lose("stolen");
    this.onGrant(lockKey, value, lease.fencingToken);
    if (held.lease === null) this.#all.emptyCount--;
    held.value = value;
    held.lease = lease;
    held.owner = this;
  }

  /** Removes the lease of an owner value. Does nothing if a later lease has replaced it. */
  remove(lockKey: string, value: string): void {
    const held = this.#all.places.get(lockKey);
    if (held?.value === value) this.#empty(held);
  }

  /** How many leases of this `RedisLock` there are. */
  get count(): number {
    let count = 0;
    for (const { owner } of this.#all.places.values()) if (owner === this) count++;
    return count;
  }

  /** Removes the leases of this `RedisLock`. */
  clear(): void {
    for (const held of this.#all.places.values()) if (held.owner === this) this.#empty(held);
  }

  #empty(held: HeldLease): void {
    if (held.lease === null) return;
    held.lease = null;
    held.owner = null;
    const { places } = this.#all;
    const emptyCount = ++this.#all.emptyCount;
    if (emptyCount <= MIN_EMPTY || emptyCount <= places.size / 2) return;
    for (const [lockKey, { lease }] of places) if (lease === null) places.delete(lockKey);
    this.#all.emptyCount = 0;
  }
}
