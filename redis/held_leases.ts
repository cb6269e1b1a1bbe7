/**
 * The leases of each lock on one client: a later grant ends the earlier lease in the same process at
 * once. How leases elsewhere are notified is in `waiting/waiters.ts`.
 *
 * @module
 */
import type { ManagedLease } from "../core/lease/lease.ts";
import type { RedisClient } from "./client.ts";

export interface Holder {
  readonly value: string;
  /** Another owner value was granted the lock after this one. */
  onLaterGrant(value: string): void;
}

interface HeldLease {
  readonly holder: Holder;
  readonly lease: ManagedLease;
  readonly instance: HeldLeases;
}

/** By lock key. All `RedisLock`s on one client share them. */
const leasesOf = new WeakMap<RedisClient, Map<string, HeldLease>>();

/** The leases of one `RedisLock`, which knows those of others on the same client. */
export class HeldLeases {
  readonly #all: Map<string, HeldLease>;

  constructor(client: RedisClient) {
    this.#all = leasesOf.get(client) ?? new Map();
    leasesOf.set(client, this.#all);
  }

  /** The lock was granted to `value`. If an earlier grant has a lease here, that lease is stolen. */
  onGrant(lockKey: string, value: string, fencingToken: bigint): void {
    const held = this.#all.get(lockKey);
    if (held === undefined || held.holder.value === value) return;
    if (held.lease.fencingToken < fencingToken) held.holder.onLaterGrant(value);
  }

  onStolen(lockKey: string, value: string): void {
    if (this.has(lockKey, value)) this.#all.get(lockKey)?.lease.lose("stolen");
  }

  /** The lock is not held under this owner id, by the answer to a later ask of this `RedisLock`. */
  onDenied(lockKey: string, ownerId: string): void {
    const held = this.#all.get(lockKey);
    if (held?.instance === this && held.lease.ownerId === ownerId) held.lease.lose("stolen");
  }

  /** Whether the last lease of the lock is that of this owner value, released perhaps, but unanswered. */
  has(lockKey: string, value: string): boolean {
    return this.#all.get(lockKey)?.holder.value === value;
  }

  /** Whether a lease of the lock under this owner id still counts here. */
  isHeldUnder(lockKey: string, ownerId: string): boolean {
    const lease = this.#all.get(lockKey)?.lease;
    return lease !== undefined && lease.ownerId === ownerId && lease.remainingMs > 0;
  }

  /** Whether a later grant than this one has a lease here. */
  hasLater(lockKey: string, fencingToken: bigint): boolean {
    const lease = this.#all.get(lockKey)?.lease;
    return lease !== undefined && lease.fencingToken > fencingToken && lease.remainingMs > 0;
  }

  /** Adds a lease that was just opened. A later grant may have been answered since: then it is stolen. */
  add(lockKey: string, holder: Holder, lease: ManagedLease): void {
    const last = this.#all.get(lockKey);
    if (last !== undefined) {
      if (this.hasLater(lockKey, lease.fencingToken)) return holder.onLaterGrant(last.holder.value);
      this.onGrant(lockKey, holder.value, lease.fencingToken);
    }
    this.#all.set(lockKey, { holder, lease, instance: this });
  }

  /** Removes the lease of an owner value. Does nothing if a later lease has replaced it. */
  remove(lockKey: string, value: string): void {
    if (this.#all.get(lockKey)?.holder.value === value) this.#all.delete(lockKey);
  }

  get count(): number {
    return this.#own().length;
  }

  clear(): void {
    for (const lockKey of this.#own()) this.#all.delete(lockKey);
  }

  #own(): string[] {
    return [...this.#all].filter(([, { instance }]) => instance === this).map(([lockKey]) =>
      lockKey
    );
  }
}
