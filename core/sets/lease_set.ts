import type { Lease } from "../contract/distributed_lock.ts";
import { LeaseLostError } from "../contract/errors.ts";
import { type Hold, recordUse } from "../contract/nesting.ts";
import { CallSignal } from "../time/abort_watch.ts";

/**
 * The leases that `acquireAll()` has acquired. The loss of one ends the set: stop the work that it protects,
 * and release the set. The others are held until then.
 *
 * @example Usage
 * ```ts
 * import { acquireAll, MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * await using set = await acquireAll(locks, ["account:7", "account:3"]);
 * set.throwIfLost();
 * assertEquals([...set.leases.keys()], ["account:3", "account:7"]);
 * ```
 */
export interface LeaseSet extends AsyncDisposable {
  /** The leases by name, in the order in which they were acquired: that of the code units of the names. */
  readonly leases: ReadonlyMap<string, Lease>;
  /** Aborts with a {@linkcode LeaseLostError} at the first loss of a lease, but not at a release. */
  readonly signal: AbortSignal;
  /** How long, in ms, all leases are still provable: the least of their times. Reads the clock. */
  readonly remainingMs: number;
  /** Whether all leases can be proven now. Reads the clock. */
  readonly isHeld: boolean;
  /**
   * Throws if one of the leases cannot be proven now. Reads the clock.
   *
   * @throws {LeaseLostError} If one is lost or unproven.
   * @throws {LockError} If one was released.
   */
  throwIfLost(): void;
  /**
   * Releases all locks at once. Idempotent. Resolves and rejects as late as the slowest release.
   *
   * @returns `true` if all leases were valid until now.
   * @throws {LockSetupError} If the service refuses a release, after all were tried. Disposal of a set never throws.
   */
  release(): Promise<boolean>;
}

export function leaseSetOf(held: readonly Lease[]): LeaseSet {
  const leases: ReadonlyMap<string, Lease> = new Map(held.map((lease) => [lease.name, lease]));
  let signal: AbortSignal | null = null;
  let holds: readonly Hold[] | null = null;
  /** The code that uses the set holds its leases: those know only the call that has acquired them. */
  const use = () => void (holds ??= held.map(recordUse));
  return {
    leases,
    get signal() {
      use();
      // Each getter checks the clock: it finds a lost lease even if no timer has run yet.
      const signals = held.map((lease) => lease.signal);
      return signal ??= new CallSignal(...signals).signal;
    },
    get remainingMs() {
      return Math.min(...held.map((lease) => lease.remainingMs));
    },
    get isHeld() {
      return held.every((lease) => lease.isHeld);
    },
    throwIfLost() {
      use();
      throwIfLost(held);
    },
    async release() {
      const released = await Promise.allSettled(held.map((lease) => lease.release()));
      return released.map(valueOf).every((isOurs) => isOurs);
    },
    // `await using` reads it at its start.
    get [Symbol.asyncDispose]() {
      use();
      return async () => {
        await Promise.all(held.map((lease) => lease[Symbol.asyncDispose]()));
      };
    },
  };
}

/** Throws the first loss, or else the first error of a lease that was released. */
function throwIfLost(held: readonly Lease[]): void {
  let released: unknown;
  for (const lease of held) {
    try {
      lease.throwIfLost();
    } catch (error) {
      if (error instanceof LeaseLostError) throw error;
      released ??= error;
    }
  }
  if (released !== undefined) throw released;
}

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === "rejected") throw settled.reason;
  return settled.value;
}
