/**
 * The public class of the Redis strategy: connects its parts, and disposes. Its calls are in `calls.ts`.
 *
 * @module
 */
import { AbortWatch } from "./abort_watch.ts";
import { BoundedWaits } from "../core/time/bounded_wait.ts";
import { ATTACHABLE_OPTIONS } from "../core/contract/call_options.ts";
import { settledWithin, SYSTEM_CLOCK } from "../core/time/clock.ts";
import type {
  AttachableAcquireOptions,
  AttachableLock,
  AttachableRequestMethod,
  AttachOptions,
  Lease,
  LockCapabilities,
  LockSnapshot,
  QueryOptions,
} from "../core/contract/distributed_lock.ts";
import { LockSetupError } from "../core/contract/errors.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { requestOn } from "../core/contract/request.ts";
import { SharedTimer } from "./shared_timer.ts";
import { Calls } from "./calls.ts";
import type { RedisClient } from "./client.ts";
import { HeldLeases } from "./waiting/held_leases.ts";
import type { CallContext } from "./hold.ts";
import { readOptions, type RedisLockOptions } from "./options.ts";
import { RedisCommands } from "./protocol/commands.ts";
import { Waiters } from "./waiting/waiters.ts";

/** Least time in ms for closing connections, if the releases have used up `disposeTimeoutMs`. */
const CLOSE_MS = 100;

/**
 * Named locks on one Redis (6.2 or later) or Valkey (7.2 or later) server, or on a cluster of them.
 *
 * A lock is a key that expires by its TTL. Lua scripts make acquire, renewal and release atomic, and
 * safe to be executed twice, late or not at all. An uncontended acquire is one round trip, and so is a
 * release. Waiters queue on the server, first in, first out: a release makes the next live waiter the
 * holder and notifies only that waiter. A lease counts from the moment its request was *sent*, minus an
 * allowance for clock drift, so it ends here before it expires on the server. A steal is the exception:
 * a victim on the same client, or one whose instance is subscribed to its inbox (it has had to wait
 * before, and made the owner id itself), is notified at once. Any other victim believes in its lease
 * until its next renewal, for a third of its TTL (with `autoRenew: false`, until its deadline). The same
 * holds if another instance takes the lock over under its owner id.
 *
 * Limits: a server that loses data (a restart without persistence, the failover to a replica that had
 * not received the key, eviction) can grant a lock twice. The fencing token, `max(previous + 1, server
 * clock in µs)`, lets the resource reject the earlier holder. The server skips a waiter that seems to be
 * dead (its process is frozen, its subscription broken). When that waiter asks again, it gets its old
 * place back.
 *
 * In Redis Cluster all keys of a lock are in one slot. No node knows whether a waiter is still
 * subscribed, so a dead waiter blocks the lock for up to three seconds when its turn comes.
 *
 * @see {@link https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/}
 *
 * @example Usage
 * ```ts ignore
 * import { RedisLock } from "@holdfast/lock/redis";
 * import { nodeRedis } from "@holdfast/lock/redis/node-redis";
 * import { createClient } from "redis";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" })
 *   .on("error", console.error).connect();
 * {
 *   await using locks = new RedisLock(nodeRedis(client), { ttlMs: 10_000 });
 *   await using lease = await locks.acquire("orders:42", { waitMs: 5_000 });
 *   lease.throwIfLost();
 * }
 * await client.close();
 * ```
 */
export class RedisLock implements AttachableLock {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "global",
    endsBy: "ttl",
    steal: true,
    attach: true,
    shared: false,
  });
  readonly #nesting = new Nesting();
  /** Runs a callback under the lock. See {@linkcode AttachableLock.request}. */
  readonly request: AttachableRequestMethod = requestOn(this, {
    options: ATTACHABLE_OPTIONS,
    nesting: this.#nesting,
    steal: (name, options) => this.#calls.steal(name, options),
  });
  readonly #lifetime: Lifetime;
  /** Shared: a timer of the runtime per deadline would cost a sixth of an uncontended cycle. */
  readonly #timer = new SharedTimer(SYSTEM_CLOCK);
  readonly #context: CallContext;
  readonly #calls: Calls;
  readonly #bounded: BoundedWaits<AttachableAcquireOptions>;

  /**
   * Creates a manager of locks. It sends nothing before the first call.
   *
   * @param client The user's own Redis client in an adapter: `nodeRedis()`, `ioredis()`,
   * `denoRedis()`, or any other {@linkcode RedisClient}.
   * @param options TTL, keys, label and time limits.
   * @throws {LockSetupError} If the client is not in an adapter.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(client: RedisClient, options: RedisLockOptions = {}) {
    if (typeof client?.send !== "function") {
      throw new LockSetupError(
        "Cannot use this Redis client: pass an adapter, as in new RedisLock(nodeRedis(client))",
      );
    }
    const read = readOptions(options);
    this.#lifetime = new Lifetime(read);
    const { commandTimeoutMs, unavailableAfterMs, handoff, ttlMs } = read;
    const { warnings } = this.#lifetime;
    const clock = this.#timer;
    const engine = new LeaseEngine(clock, read.onRenewalLate);
    const limits = { commandTimeoutMs, unavailableAfterMs };
    const commands = new RedisCommands(client, { clock, ...limits, handoff, warnings });
    const held = new HeldLeases(client);
    const waiters = new Waiters({ client, commands, engine, warnings, held, ttlMs });
    this.#context = { engine, commands, waiters, held, aborts: new AbortWatch() };
    this.#calls = new Calls(this.#context, this.#lifetime, read);
    this.#bounded = new BoundedWaits(this.#calls, clock);
  }

  /** Acquires the lock; waits in the queue for it. See {@linkcode AttachableLock.acquire}. */
  acquire(name: string, options: AttachableAcquireOptions = {}): Promise<Lease> {
    this.#nesting.check(name, options, this.#lifetime.warnings);
    return options?.waitMs === undefined
      ? this.#calls.wait(name, options)
      : this.#bounded.acquire(name, options);
  }

  /** Acquires the lock if it is free and has no queue. See {@linkcode AttachableLock.tryAcquire}. */
  tryAcquire(
    name: string,
    options: AttachableAcquireOptions = {},
  ): Promise<Lease | null> {
    return options?.waitMs === undefined
      ? this.#calls.tryOnce(name, options)
      : this.#bounded.tryAcquire(name, options);
  }

  /** Takes over a lease by its owner id. See {@linkcode AttachableLock.attach}. */
  attach(name: string, ownerId: string, options: AttachOptions = {}): Promise<Lease | null> {
    return this.#calls.attach(name, ownerId, options);
  }

  /** Reads the holder and the waiters. See {@linkcode AttachableLock.query}. */
  query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    return this.#calls.query(name, options);
  }

  /** Rejects waiters with an `AbortError` and ends leases, in `disposeTimeoutMs`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(() => this.#close(this.#lifetime.disposeTimeoutMs));
  }

  async #close(timeoutMs: number): Promise<void> {
    const { engine, commands, waiters } = this.#context;
    const endMs = this.#timer.now() + timeoutMs;
    const isClosed = commands.unusable !== undefined;
    if (isClosed) this.#warnOfClosedClient();
    waiters.disposeAll();
    await engine.close(isClosed ? 0 : timeoutMs); // a closed client can release nothing
    // The inbox closes after all calls have left: while they wait, its subscription shows they are alive.
    const closed = Promise.allSettled([waiters.close(), commands.close()]);
    await settledWithin(this.#timer, closed, Math.max(endMs - this.#timer.now(), CLOSE_MS));
    this.#timer.close();
    this.#context.held.clear();
  }

  #warnOfClosedClient(): void {
    const { count } = this.#context.held;
    if (count === 0) return;
    const stay = count === 1
      ? "1 of them stays held until its TTL is over"
      : `${count} of them stay held until their TTL is over`;
    this.#lifetime.warnings.warn(
      `The Redis client was closed before its locks: ${stay}. ` +
        "Dispose the RedisLock first, then close the client",
    );
  }
}
