/**
 * `MemoryLock`: locks within one instance, without I/O. A caller that has a turn of a name holds the lock:
 * its lease is opened in the step that grants the turn. The release ends the turn, which grants the next one,
 * first in, first out. A steal takes all turns away, opens its own lease, and then ends those of the victims.
 * The turns are in `core/lease/local_queue.ts`.
 *
 * @module
 */
import {
  ACQUIRE_OPTIONS,
  MAX_HOLDERS,
  modeOf,
  readMaxWaiters,
  readPrefix,
} from "../core/contract/call_options.ts";
import type {
  AcquireOptions,
  Lease,
  ListableLock,
  ListOptions,
  LockCapabilities,
  LockHolder,
  LockSnapshot,
  QueryOptions,
  RequestMethod,
} from "../core/contract/distributed_lock.ts";
import { instant } from "../core/time/clock.ts";
import { Calls, isPlain, isPlainTry } from "../core/lease/calls.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime, STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";
import { LinkedSet } from "../core/lease/linked_set.ts";
import { LocalQueue, type Turn } from "../core/lease/local_queue.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { requestOn } from "../core/contract/request.ts";
import { checkName, labelOf, makeOwnerId, readTable } from "../core/contract/options.ts";

/**
 * Named locks within one instance: first in, first out, without a server, files or permissions.
 *
 * It excludes only callers of the *same instance* from each other: use it for tests, examples and
 * programs of a single process. It has shared holders and limits. A lease ends by its release, a steal,
 * `maxHoldMs` or disposal. Each instance counts its fencing tokens from 1.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * {
 *   await using lease = await locks.acquire("orders:42");
 *   assertEquals(lease.fencingToken, 1n);
 *   assertEquals(await locks.tryAcquire("orders:42"), null);
 * }
 * assertEquals(await locks.request("orders:42", () => "done"), "done");
 * ```
 */
export class MemoryLock implements ListableLock {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "global",
    endsBy: "release",
    steal: true,
    attach: false,
    shared: true,
    limit: true,
    list: true,
  });
  readonly #nesting = new Nesting(this);
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this, {
    options: ACQUIRE_OPTIONS,
    nesting: this.#nesting,
    steal: this.#steal.bind(this),
  });
  /** Its timer keeps the process alive: a caller may wait for the end of a lease by `maxHoldMs`. */
  readonly #engine = new LeaseEngine("memory");
  readonly #lifetime: Lifetime;
  readonly #queue = new LocalQueue();
  /** The holders of each lock, in the order of their grants. */
  readonly #held = new Map<string, LinkedSet<ManagedLease>>();
  readonly #calls: Calls;
  #lastToken = 0n;

  /**
   * Creates a manager of locks.
   *
   * @param options Label, warnings, and the time limit of disposal.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(options: StrategyOptions = {}) {
    this.#lifetime = new Lifetime(readTable("new MemoryLock()", options, STRATEGY_OPTIONS));
    const [lifetime, nesting] = [this.#lifetime, this.#nesting];
    this.#calls = new Calls({ strategy: "memory", lock: this, lifetime, nesting }, {
      wait: this.#wait.bind(this),
      tryOnce: this.#tryOnce.bind(this),
      look: (name) => this.query(name, { maxWaiters: 0 }),
      steal: this.#stealNow.bind(this),
    });
  }

  /** Waits for the lock and acquires it. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const read = this.#calls.read(name, options);
    return isPlain(read) ? await this.#wait(name, read) : await this.#calls.acquire(name, read);
  }

  async #wait(name: string, options: CallOptions): Promise<Lease> {
    const { signal } = options;
    signal?.throwIfAborted();
    let lease: ManagedLease | null = null;
    // Not later: a thief must always find a lease to take away.
    const onTurn = (turn: Turn) => void (lease = this.#open(name, turn, options));
    await this.#queue.enter(name, { ...options, label: this.#labelOf(options), onTurn });
    return await this.#handOut(lease!, signal);
  }

  async #handOut(lease: ManagedLease, signal: AbortSignal | undefined): Promise<Lease> {
    const ending = signal?.aborted ? signal : this.#lifetime.ended;
    if (!ending.aborted) return lease;
    await lease.release();
    throw ending.reason;
  }

  /** Acquires the lock if it is free now, or within `waitMs`. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    const read = this.#calls.read(name, options);
    if (isPlainTry(read)) return await this.#tryOnce(name, read);
    return await this.#calls.tryAcquire(name, read);
  }

  async #tryOnce(name: string, options: CallOptions): Promise<Lease | null> {
    const { signal, onWait } = options;
    signal?.throwIfAborted();
    const turn = this.#queue.tryEnter(name, options);
    const lease = turn && this.#open(name, turn, options);
    if (lease === null) onWait?.({ waiters: this.#queue.waiterCount(name) });
    await null; // as with the other strategies, a signal that aborts in the same tick ends the call
    if (lease !== null) return await this.#handOut(lease, signal);
    signal?.throwIfAborted();
    return null;
  }

  /** Reads the holders and the waiters of a lock. See {@linkcode DistributedLock.query}. */
  // deno-lint-ignore require-await -- bad arguments must reject, not throw
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    checkName(name);
    this.#lifetime.throwIfEnded();
    const held = this.#held.get(name);
    return {
      name,
      holders: held?.take(MAX_HOLDERS).map(described) ?? [],
      holderCount: held?.size ?? 0,
      waiters: this.#queue.described(name, maxWaiters),
      waiterCount: this.#queue.waiterCount(name),
    };
  }

  /** Lists the names of the locks that are held. See {@linkcode ListableLock.list}. */
  list(options: ListOptions = {}): AsyncIterable<string> {
    const prefix = readPrefix(options);
    this.#lifetime.throwIfEnded();
    return this.#names(prefix);
  }

  async *#names(prefix: string): AsyncGenerator<string> {
    for (const name of this.#queue.names()) if (name.startsWith(prefix)) yield name;
  }

  /** Rejects waiters with an `AbortError` and ends all leases, within `disposeTimeoutMs`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(() => {
      this.#queue.rejectAll(this.#lifetime.ended.reason);
      return this.#engine.close(this.#lifetime.disposeTimeoutMs);
    });
  }

  #labelOf({ label = this.#lifetime.label }: AcquireOptions): string {
    return label;
  }

  async #steal(name: string, options: AcquireOptions): Promise<Lease> {
    return await this.#calls.steal(name, this.#calls.read(name, options));
  }

  // deno-lint-ignore require-await -- an error must reject, not throw
  async #stealNow(name: string, options: CallOptions): Promise<Lease> {
    const turn = this.#queue.seize(name);
    const victims = this.#held.get(name) ?? [];
    this.#held.delete(name);
    const lease = this.#open(name, turn, options);
    for (const victim of victims) victim.lose("stolen");
    return lease;
  }

  #open(name: string, turn: Turn, options: CallOptions): ManagedLease {
    const lease = this.#engine.open({
      name,
      ownerId: makeOwnerId(this.#labelOf(options)),
      mode: modeOf(options),
      fencingToken: ++this.#lastToken,
      sent: instant(this.#engine.clock),
      ttlMs: Infinity,
      validMs: Infinity,
      autoRenew: false,
      maxHoldMs: options.maxHoldMs,
      call: options.call,
    }, {
      release: () => {
        if (!turn.isCurrent) return { state: "gone", reason: "stolen" };
        held.delete(lease);
        if (held.size === 0) this.#held.delete(name);
        turn.end();
        return { state: "released" };
      },
    })!; // open() returns null only for a grant whose TTL is over, or may be, and there is no TTL here
    const held = this.#held.get(name) ?? new LinkedSet();
    if (held.size === 0) this.#held.set(name, held);
    held.add(lease);
    return lease;
  }
}

function described({ mode, ownerId, fencingToken, remainingMs }: ManagedLease): LockHolder {
  const label = labelOf(ownerId);
  return { mode, ...(label === undefined ? {} : { label }), fencingToken, remainingMs };
}
