/**
 * Finds calls that wait for their own caller, which holds the name already: through the `request()` in whose callback
 * it runs, or an `acquire()` whose lease it has used. (No API tells which code gets the result of a promise.)
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { modeOf } from "./call_options.ts";
import { BACKGROUND_CLOCK } from "../time/clock.ts";
import type { AttachableAcquireOptions, DistributedLock, Lease } from "./distributed_lock.ts";
import { LockTimeoutError } from "./errors.ts";

export interface Hold {
  readonly lease: Lease;
  /** The instance whose `request()` has called the code; `null` if the code has called `acquire()`. */
  readonly requestOf: Nesting | null;
}

/** Of many leases the last ones are known: each job that code starts keeps its own list. */
const MAX_HOLDS = 16;
/** After warnings about so many names no more follow: a program may have a name per order. */
const MAX_NAMES = 100;
/** So long, in ms, a call may wait while its own code holds a lease: it may release that before it awaits. */
const SUSPECT_AFTER_MS = 1_000;

/** What the running code holds, of all instances. Costs nothing before the first lease is used. */
export const holds: AsyncLocalStorage<readonly Hold[]> = new AsyncLocalStorage();

function holdsWith(hold: Hold): readonly Hold[] {
  const before = holds.getStore();
  if (before === undefined) return [hold];
  return [
    ...before.filter(({ lease }) => lease.isHeld).slice(1 - MAX_HOLDS),
    hold,
  ];
}

/** A function of its own, for the sake of the usual case: one that has a closure costs memory. */
function holdsOf(
  running: readonly Hold[],
  name: string,
  ownerId: string | undefined,
): readonly Hold[] | null {
  const own = running.filter(({ lease }) => {
    // A call under the same owner id takes the lease over at once; for a lease that is over no call waits.
    return lease.name === name && lease.ownerId !== ownerId && lease.remainingMs > 0;
  });
  return own.length === 0 ? null : own;
}

/** Running code uses a lease: from now on this code, and what it starts, holds it. */
export function recordUse(lease: Lease): Hold {
  const hold: Hold = { lease, requestOf: null };
  holds.enterWith(holdsWith(hold));
  return hold;
}

export class Nesting {
  readonly #source: DistributedLock;
  readonly #names = new Set<string>();

  constructor(source: DistributedLock) {
    this.#source = source;
  }

  /** Runs the callback of a request. Calls in it, or in what it starts, know that it holds the lease. */
  async run<T>(lease: Lease, callback: (lease: Lease) => T | Promise<T>): Promise<T> {
    return await holds.run(holdsWith({ lease, requestOf: this }), callback, lease);
  }

  /** The leases that the running code holds, and that a call of it would wait for; `null` if there is none. */
  ownHolds(name: string, options: AttachableAcquireOptions): readonly Hold[] | null {
    const running = options.waitMs === 0 ? undefined : holds.getStore();
    return running === undefined ? null : holdsOf(running, name, options.ownerId);
  }

  /** Warns, once per name, of a call that waits for its own caller, if only until that releases its lease. */
  watch(
    own: readonly Hold[],
    options: AttachableAcquireOptions,
    warn: (message: string) => void,
    calling: Promise<unknown>,
  ): void {
    const { name } = own[0]!.lease;
    const inner = own.filter(({ requestOf }) => requestOf === this);
    if (inner.length > 0) {
      // Shared calls wait for each other only if another one comes between them.
      const areShared = [...inner.map(({ lease }) => lease.mode), modeOf(options)]
        .every((mode) => mode === "shared");
      const end = "until the callback ends" +
        (areShared ? " if an exclusive call waits in between" : "");
      const inside =
        "was asked for inside the callback of request() that holds it, so the call waits";
      this.#warn(name, `${inside} ${end}: use the lease that the callback has`, warn);
    }
    if (!this.#isSilent(name)) this.#suspect(own, calling, warn);
  }

  /** Warns of a call that waits for too long: its code may have released the lease before it awaits. */
  #suspect(
    own: readonly Hold[],
    calling: Promise<unknown>,
    warn: (message: string) => void,
  ): void {
    const { name } = own[0]!.lease;
    const tokens = own.map(({ lease }) => lease.fencingToken);
    const what =
      "is held by the code that waits for it again: if that code awaits the call before it " +
      "releases its lease, it waits for itself; use that lease";
    const check = async () => {
      if (await this.#isHeldUnder(name, tokens)) this.#warn(name, what, warn);
    };
    const cancel = BACKGROUND_CLOCK.schedule(check, SUSPECT_AFTER_MS);
    calling.then(cancel, (error) => {
      cancel();
      if (error instanceof LockTimeoutError) check();
    });
  }

  /** Whether one of the leases holds the lock here: they may be of another instance or service. */
  async #isHeldUnder(name: string, tokens: readonly bigint[]): Promise<boolean> {
    const snapshot = await this.#source.query(name, { maxWaiters: 0 }).catch(() => null);
    return snapshot?.holders.some(({ fencingToken }) => tokens.includes(fencingToken!)) ?? false;
  }

  #isSilent(name: string): boolean {
    return this.#names.has(name) || this.#names.size >= MAX_NAMES;
  }

  #warn(name: string, what: string, warn: (message: string) => void): void {
    if (this.#isSilent(name)) return;
    this.#names.add(name);
    warn(`Lock ${JSON.stringify(name)} ${what}, as locks are not re-entrant`);
  }
}
