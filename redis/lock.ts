/**
 * Locks on one Redis server.
 *
 * @module
 */
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachableLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RequestOptions,
  TryAcquireOptions,
} from "../core/distributed_lock.ts";
import type { ManagedLease } from "../core/lease.ts";
import { LeaseEngine } from "../core/lease_engine.ts";
import { Lifetime } from "../core/lifetime.ts";
import { makeOwnerId } from "../core/owner.ts";
import { request, type RequestArguments } from "../core/request.ts";
import { checkAcquireOptions, checkName, checkOwnerId } from "../core/validate.ts";
import { Acquisition } from "./acquisition.ts";
import type { RedisClient } from "./client.ts";
import { type Ask, type Asked, type AskMode, RedisCommands } from "./commands.ts";
import { type LockKeys, lockKeys } from "./keys.ts";
import { readOptions, type RedisLockOptions } from "./options.ts";
import { OwnedLeases } from "./owned_leases.ts";
import { isOurs, labelOfValue, makeOwner } from "./owner_value.ts";
import { Patience } from "./patience.ts";
import { evictionWarning } from "./preflight.ts";
import type { QueryAnswer } from "./replies.ts";

const CAPABILITIES: LockCapabilities = {
  fifo: "none",
  endsBy: "ttl",
  steal: true,
  attach: true,
  shared: false,
};

/**
 * Named locks on one Redis (6.2 or later) or Valkey (7.2 or later) server.
 *
 * A lock is a key that is set if it is free and expires by its TTL; Lua scripts make acquire, renewal
 * and release atomic and safe to be executed twice, late or not at all. An uncontended acquire is one
 * round trip, and so is a release. A lease is believed from the moment its request was *sent*, minus a
 * drift allowance, so it ends here before it ends on the server.
 *
 * Limits: a server that loses data (a restart without persistence, the failover to a replica that had
 * not received the key, eviction) can grant a lock twice. The fencing token, `max(previous + 1, server
 * clock in µs)`, lets the resource refuse the earlier holder. Waiters ask again at random moments: no
 * order is promised yet.
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
 * await using locks = new RedisLock(nodeRedis(client), { ttlMs: 10_000 });
 * await using lease = await locks.acquire("orders:42", { signal: AbortSignal.timeout(5_000) });
 * ```
 */
export class RedisLock implements AttachableLock {
  readonly #client: RedisClient;
  readonly #options: ReturnType<typeof readOptions>;
  readonly #engine = new LeaseEngine();
  readonly #commands: RedisCommands;
  readonly #lifetime: Lifetime;
  readonly #owned = new OwnedLeases();
  #wasUsed = false;

  /**
   * Creates a manager of locks. Nothing is sent before the first lock is asked for.
   *
   * @param client The user's own Redis client in an adapter: `nodeRedis()`, `ioredis()`,
   * `denoRedis()`, or any other {@linkcode RedisClient}.
   * @param options TTL, keys, label and time limits.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(client: RedisClient, options: RedisLockOptions = {}) {
    if (typeof client?.send !== "function") {
      throw new TypeError("Cannot use the Redis client as it is: wrap it, as in nodeRedis(client)");
    }
    this.#options = readOptions(options);
    this.#lifetime = new Lifetime(options);
    this.#client = client;
    this.#commands = new RedisCommands(client, this.#engine.clock, this.#options.commandTimeoutMs);
  }

  /** What this strategy promises. */
  get capabilities(): LockCapabilities {
    return CAPABILITIES;
  }

  /** Waits for the lock. See {@linkcode AttachableLock.acquire}. */
  async acquire(name: string, options: AttachableAcquireOptions = {}): Promise<Lease> {
    const lease = await this.#take(name, options, { kind: "take" }, true);
    return lease!; // A wait ends with a lease or rejects.
  }

  /** Takes the lock if it is free. See {@linkcode AttachableLock.tryAcquire}. */
  tryAcquire(
    name: string,
    options: Omit<AttachableAcquireOptions, "onWait"> = {},
  ): Promise<Lease | null> {
    return this.#take(name, options, { kind: "take" }, false);
  }

  /** Takes over a lease by its owner id. See {@linkcode AttachableLock.attach}. */
  async attach(
    name: string,
    ownerId: string,
    options: TryAcquireOptions = {},
  ): Promise<Lease | null> {
    checkOwnerId(ownerId);
    return await this.#take(name, { ...options, ownerId }, { kind: "attach" }, false);
  }

  /** Runs a callback under the lock. See {@linkcode AttachableLock.request}. */
  request<T>(name: string, callback: (lease: Lease) => T | Promise<T>): Promise<T>;
  /** The same with options. */
  request<T>(
    name: string,
    options: RequestOptions,
    callback: (lease: Lease | null) => T | Promise<T>,
  ): Promise<T>;
  request<T>(name: string, ...args: RequestArguments<T>): Promise<T> {
    return request<T>(
      {
        acquire: (name, options) => this.acquire(name, options),
        tryAcquire: (name, options) => this.tryAcquire(name, options),
        steal: (name, options) => this.#steal(name, options),
      },
      name,
      args,
    );
  }

  /** Tells who holds the lock. See {@linkcode AttachableLock.query}. */
  async query(name: string): Promise<LockSnapshot> {
    this.#check(name, {});
    const { value, leftMs, fencingToken } = await this.#read(name);
    if (value === null) return { name, held: null, waiters: [] };
    const label = labelOfValue(value);
    const held = {
      ...(label === undefined ? {} : { label }),
      ...(isOurs(value) ? { fencingToken } : {}),
      ...(leftMs < 0 ? {} : { remainingMs: leftMs }),
    };
    return { name, held, waiters: [] };
  }

  /** Rejects waiters with an `AbortError` and releases what is held. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(async () => {
      await this.#engine.close(this.#lifetime.disposeTimeoutMs);
      await this.#client.close?.();
    });
  }

  #check(name: string, options: AttachableAcquireOptions): LockKeys {
    checkName(name);
    checkAcquireOptions(options);
    if (options.ownerId !== undefined) checkOwnerId(options.ownerId);
    this.#lifetime.throwIfEnded();
    return lockKeys(this.#options.keyPrefix, name);
  }

  async #take(
    name: string,
    options: AttachableAcquireOptions,
    mode: AskMode,
    wait: boolean,
  ): Promise<ManagedLease | null> {
    const keys = this.#check(name, options);
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const ownerId = options.ownerId ?? makeOwnerId(this.#lifetime.label);
    const start = (onWait?: () => void) => {
      const ask: Ask = { keys, owner: makeOwner(ownerId), ttlMs: this.#options.ttlMs, mode };
      const call = new Acquisition(ask, {
        engine: this.#engine,
        commands: this.#commands,
        patience: this.#patience(name, signal),
        wait,
        signal,
        onWait: (info) => (onWait?.(), options.onWait?.(info)),
        open: (asked) => this.#open(name, ask, asked, options),
      }).run();
      this.#engine.background(() => call); // disposal waits until it has ended
      return call;
    };
    return options.ownerId === undefined
      ? await start()
      : await this.#owned.join({ name, ownerId, wait, signal, start });
  }

  async #steal(name: string, options: AcquireOptions): Promise<Lease> {
    for (;;) {
      this.#check(name, options);
      const { value } = await this.#read(name);
      const mode: AskMode = value === null ? { kind: "take" } : { kind: "steal", victim: value };
      const lease = await this.#take(name, options, mode, false);
      if (lease !== null) return lease; // else the holder changed meanwhile
    }
  }

  async #read(name: string): Promise<QueryAnswer> {
    const keys = lockKeys(this.#options.keyPrefix, name);
    const patience = this.#patience(name, this.#lifetime.ended);
    for (;;) {
      try {
        return await patience.settle(this.#commands.query(keys));
      } catch (error) {
        await patience.bear(error);
      }
    }
  }

  #patience(name: string, signal: AbortSignal): Patience {
    return new Patience(this.#engine.clock, name, this.#options.unavailableAfterMs, signal);
  }

  #open(name: string, ask: Ask, asked: Asked, options: AcquireOptions): ManagedLease | null {
    const { answer, sent } = asked;
    if (answer.state !== "granted") return null;
    const { keys, owner, ttlMs } = ask;
    this.#warnOnce();
    return this.#engine.open({
      name,
      ownerId: owner.ownerId,
      fencingToken: answer.fencingToken,
      sent,
      ttlMs,
      validMs: answer.validMs,
      autoRenew: options.autoRenew ?? true,
      maxHoldMs: options.maxHoldMs,
    }, {
      renew: (ttlMs) => this.#commands.renew(keys, owner, ttlMs),
      release: () => {
        this.#owned.forget(name, owner.ownerId);
        return this.#commands.release(keys, owner);
      },
    });
  }

  /** Looks once, behind the first grant, whether the server may evict locks. */
  #warnOnce(): void {
    if (this.#wasUsed) return;
    this.#wasUsed = true;
    this.#commands.memoryInfo().then((info) => {
      const warning = evictionWarning(info);
      if (warning !== null) this.#options.onWarning(warning);
    }).catch(() => {}); // INFO may be forbidden; a warning is not worth an error
  }
}
