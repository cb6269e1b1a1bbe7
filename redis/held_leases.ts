import type { ManagedLease } from "../core/lease/lease.ts";
import type { LockMode } from "../core/contract/distributed_lock.ts";
import type { RedisClient } from "./client.ts";

/** The owner value that was granted a lock, and how. */
export interface Holder {
  readonly value: string;
  readonly leaseMode: LockMode;
  /** Another owner value was granted the lock after this one. */
  onLaterGrant(value: string): void;
}

interface HeldLease {
  readonly holder: Holder;
  readonly lease: ManagedLease;
  readonly instance: HeldLeases;
}

/** The last one of each client. All `RedisLock`s on one client share their leases. */
const ofClient = new WeakMap<RedisClient, HeldLeases>();

/**
 * The leases of one `RedisLock`, which knows those of others on the same client: a later grant of a lock ends the
 * earlier lease in this process at once, unless both are shared.
 */
export class HeldLeases {
  /** The last exclusive lease of each lock, by lock key. */
  readonly #exclusive = new Map<string, HeldLease>();
  /** The shared leases of each lock, by lock key and owner value. */
  readonly #shared = new Map<string, Map<string, HeldLease>>();

  constructor(client: RedisClient) {
    const other = ofClient.get(client);
    ofClient.set(client, this);
    if (other === undefined) return;
    this.#exclusive = other.#exclusive;
    this.#shared = other.#shared;
  }

  /** The lock was granted. The leases here that an earlier grant has, and that cannot share it, are stolen. */
  onGrant(
    lockKey: string,
    { value, leaseMode }: Pick<Holder, "value" | "leaseMode">,
    fencingToken: bigint,
  ): void {
    const held = this.#exclusive.get(lockKey);
    if (held !== undefined && held.holder.value !== value) {
      if (held.lease.fencingToken < fencingToken) held.holder.onLaterGrant(value);
    }
    if (leaseMode === "shared" || this.#shared.size === 0) return;
    for (const { holder, lease } of [...(this.#shared.get(lockKey)?.values() ?? [])]) {
      if (lease.fencingToken < fencingToken) holder.onLaterGrant(value);
    }
  }

  onStolen(lockKey: string, value: string): void {
    this.#find(lockKey, value)?.lease.lose("stolen");
  }

  /** The lock is not held under this owner id, by the answer to a later ask of this `RedisLock`. */
  onDenied(lockKey: string, ownerId: string): void {
    const held = this.#exclusive.get(lockKey);
    if (held?.instance === this && held.lease.ownerId === ownerId) held.lease.lose("stolen");
  }

  /** Whether a lease of this owner value is known here, released perhaps, but unanswered. */
  has(lockKey: string, value: string): boolean {
    return this.#find(lockKey, value) !== undefined;
  }

  /** Whether a lease under this owner id needs the lock. A shared one is never taken over. */
  isHeldUnder(lockKey: string, ownerId: string): boolean {
    const lease = this.#exclusive.get(lockKey)?.lease;
    return lease !== undefined && lease.ownerId === ownerId && lease.needsLock;
  }

  /** Whether a later grant than this one, which could not share the lock with it, has a lease here. */
  hasLater(lockKey: string, leaseMode: LockMode, fencingToken: bigint): boolean {
    const isLater = ({ lease }: HeldLease) =>
      lease.fencingToken > fencingToken && lease.remainingMs > 0;
    const last = this.#exclusive.get(lockKey);
    if (last !== undefined && isLater(last)) return true;
    if (leaseMode === "shared" || this.#shared.size === 0) return false;
    return [...(this.#shared.get(lockKey)?.values() ?? [])].some(isLater);
  }

  /** Adds a lease that was just opened, as no later grant has one. */
  add(lockKey: string, holder: Holder, lease: ManagedLease): void {
    this.onGrant(lockKey, holder, lease.fencingToken);
    const held = { holder, lease, instance: this };
    if (holder.leaseMode === "exclusive") {
      this.#shared.delete(lockKey);
      this.#exclusive.set(lockKey, held);
    } else {
      this.#exclusive.delete(lockKey);
      this.#shared.set(lockKey, (this.#shared.get(lockKey) ?? new Map()).set(holder.value, held));
    }
  }

  /** Removes the lease of an owner value. Does nothing if a later lease has replaced it. */
  remove(lockKey: string, value: string): void {
    if (this.#exclusive.get(lockKey)?.holder.value === value) this.#exclusive.delete(lockKey);
    const leases = this.#shared.get(lockKey);
    if (leases?.delete(value) && leases.size === 0) this.#shared.delete(lockKey);
  }

  get count(): number {
    return this.#own().length;
  }

  clear(): void {
    for (const [lockKey, { holder }] of this.#own()) this.remove(lockKey, holder.value);
  }

  #find(lockKey: string, value: string): HeldLease | undefined {
    const held = this.#exclusive.get(lockKey);
    return held?.holder.value === value ? held : this.#shared.get(lockKey)?.get(value);
  }

  #own(): [lockKey: string, held: HeldLease][] {
    const shared = [...this.#shared].flatMap(([lockKey, leases]) =>
      Array.from(leases.values(), (held): [string, HeldLease] => [lockKey, held])
    );
    return [...this.#exclusive, ...shared].filter(([, { instance }]) => instance === this);
  }
}
