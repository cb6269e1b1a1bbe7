/**
 * Locks on one Redis server or a Redis Cluster.
 *
 * @module
 */
import { capabilitiesOf } from "../core/capabilities.ts";
import { SharedTimer } from "../core/shared_timer.ts";
import { settledWithin, SYSTEM_CLOCK } from "../core/clock.ts";
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachableLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RequestMethod,
} from "../core/distributed_lock.ts";
import type { ManagedLease } from "../core/lease.ts";
import { LeaseEngine } from "../core/lease_engine.ts";
import { OutageBudget } from "../core/outage_budget.ts";
import { Lifetime } from "../core/lifetime.ts";
import { makeOwnerId } from "../core/owner_id.ts";
import { requestOn } from "../core/request.ts";
import { checkAttachableOptions, checkName, checkOwnerId } from "../core/validate.ts";
import { Acquisition } from "./acquisition.ts";
import type { AcquisitionHost, Receiver } from "./acquisition_request.ts";
import type { RedisClient } from "./client.ts";
import { ASK_LIFE_MS, type AskMode, MAX_CLAIM_MS, RedisCommands } from "./protocol/commands.ts";
import { Inbox } from "./waiting/inbox.ts";
import { type LockKeys, lockKeys } from "./protocol/keys.ts";
import { readOptions, type RedisLockOptions } from "./options.ts";
import { OwnedLeases } from "./owned_leases.ts";
import { makeOwner } from "./protocol/owner_value.ts";
import type { InboxMessage } from "./protocol/messages.ts";
import { classifyFailure, type LeaveAnswer, type QueryAnswer } from "./protocol/replies.ts";
import { snapshotOf } from "./snapshot.ts";
import { WaitingRooms } from "./waiting/waiting_room.ts";
import { Warnings } from "./warnings.ts";

/** What closing a connection may take in ms when releasing has used up the time of disposal. */
const CLOSE_MS = 100;

/**
 * Named locks on one Redis (6.2 or later) or Valkey (7.2 or later) server, or on a cluster of them.
 *
 * A lock is a key that is set if it is free and expires by its TTL; Lua scripts make acquire, renewal
 * and release atomic and safe to be executed twice, late or not at all. An uncontended acquire is one
 * round trip, and so is a release. Waiters queue on the server, first in, first out: the release makes
 * the next live one the owner and tells only that one. A lease is believed from the moment its request
 * was *sent*, minus a drift allowance, so it ends here before it ends on the server.
 *
 * Limits: a server that loses data (a restart without persistence, the failover to a replica that had
 * not received the key, eviction) can grant a lock twice. The fencing token, `max(previous + 1, server
 * clock in µs)`, lets the resource refuse the earlier holder. A waiter that the server lost sight of
 * (its process was frozen, its subscription broken) is passed over, and comes back to its old place.
 *
 * In Redis Cluster all keys of a lock are in one slot. No node can tell whether a waiter still listens,
 * so one that died gets the lock for up to three seconds when its turn comes.
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
  /** What this strategy promises. */
  readonly capabilities: LockCapabilities = capabilitiesOf({
    fifo: "global",
    endsBy: "ttl",
    steal: true,
    attach: true,
  });
  /** Runs a callback under the lock. See {@linkcode AttachableLock.request}. */
  readonly request: RequestMethod = requestOn(this, (name, options) => this.#steal(name, options));
  readonly #client: RedisClient;
  readonly #options: ReturnType<typeof readOptions>;
  /** Arming a timer of the runtime for each deadline would cost a sixth of an uncontended cycle. */
  readonly #timer = new SharedTimer(SYSTEM_CLOCK);
  readonly #engine = new LeaseEngine(this.#timer);
  readonly #commands: RedisCommands;
  readonly #lifetime: Lifetime;
  readonly #owned = new OwnedLeases();
  readonly #receivers = new Map<string, Receiver>();
  readonly #rooms: WaitingRooms;
  readonly #inbox: Inbox;
  readonly #host: AcquisitionHost;
  readonly #warnings: Warnings;
  /** The keys of the last lock that was asked for: most who ask again ask for the same. */
  #lastKeys: { readonly name: string; readonly keys: LockKeys } | null = null;

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
    const { clock } = this.#engine;
    const { commandTimeoutMs, ttlMs } = this.#options;
    this.#commands = new RedisCommands(client, clock, commandTimeoutMs);
    this.#warnings = new Warnings(this.#commands, this.#options.onWarning);
    this.#inbox = new Inbox(client, clock, {
      onMessage: (message) => this.#receive(message),
      onChange: () => this.#rooms.askAll(),
      onWarning: (message) => this.#warnings.say(message),
    });
    const claimMs = Math.min(ttlMs, MAX_CLAIM_MS);
    this.#rooms = new WaitingRooms(clock, () => ({ listens: this.#inbox.listens, claimMs }));
    this.#host = {
      engine: this.#engine,
      commands: this.#commands,
      inbox: this.#inbox,
      rooms: this.#rooms,
      receivers: this.#receivers,
      leave: (...args) => this.#leave(...args),
    };
  }

  /** Waits for the lock. See {@linkcode AttachableLock.acquire}. */
  acquire(name: string, options: AttachableAcquireOptions = {}): Promise<Lease> {
    // A wait ends with a lease or rejects.
    return this.#take(name, options, { kind: "wait" }) as Promise<Lease>;
  }

  /** Takes the lock if it is free. See {@linkcode AttachableLock.tryAcquire}. */
  tryAcquire(
    name: string,
    options: Omit<AttachableAcquireOptions, "onWait"> = {},
  ): Promise<Lease | null> {
    return this.#take(name, options, { kind: "try" });
  }

  /** Takes over a lease by its owner id. See {@linkcode AttachableLock.attach}. */
  async attach(
    name: string,
    ownerId: string,
    options: Omit<AttachableAcquireOptions, "onWait" | "ownerId"> = {},
  ): Promise<Lease | null> {
    checkOwnerId(ownerId);
    return await this.#take(name, { ...options, ownerId }, { kind: "attach" });
  }

  /** Tells who holds the lock. See {@linkcode AttachableLock.query}. */
  async query(name: string): Promise<LockSnapshot> {
    this.#check(name, {});
    return snapshotOf(name, await this.#read(name));
  }

  /** Rejects waiters with an `AbortError` and releases what is held. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(async () => {
      for (const call of this.#receivers.values()) call.fail(this.#lifetime.ended.reason);
      const { clock } = this.#engine;
      const endMs = clock.now() + this.#lifetime.disposeTimeoutMs;
      await this.#engine.close(this.#lifetime.disposeTimeoutMs);
      // After leaving: who has left is not told any more.
      const closed = Promise.allSettled([this.#inbox.close(), this.#client.close?.()]);
      await settledWithin(clock, closed, Math.max(endMs - clock.now(), CLOSE_MS));
      this.#timer.close();
    });
  }

  #check(name: string, options: AttachableAcquireOptions): LockKeys {
    checkName(name);
    checkAttachableOptions(options);
    this.#lifetime.throwIfEnded();
    return this.#keys(name);
  }

  #keys(name: string): LockKeys {
    if (this.#lastKeys?.name !== name) {
      this.#lastKeys = { name, keys: lockKeys(this.#options.keyPrefix, name) };
    }
    return this.#lastKeys.keys;
  }

  async #take(
    name: string,
    options: AttachableAcquireOptions,
    mode: AskMode,
  ): Promise<ManagedLease | null> {
    const keys = this.#check(name, options);
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const isOwned = options.ownerId !== undefined;
    const ownerId = options.ownerId ?? makeOwnerId(this.#lifetime.label);
    const start = (events?: { onWait(): void; onEnd(): void }) => {
      const call = new Acquisition(this.#host, {
        name,
        keys,
        owner: makeOwner(ownerId, !isOwned),
        ttlMs: options.ttlMs ?? this.#options.ttlMs,
        mode,
        autoRenew: options.autoRenew ?? true,
        maxHoldMs: options.maxHoldMs,
        outlivesDisposal: options.outlivesDisposal ?? false,
        budget: this.#budget(name, signal),
        signal,
        ownSignal: options.signal,
        onWait: (info) => (events?.onWait(), options.onWait?.(info)),
        onEnd: events?.onEnd,
      }).run();
      this.#warnings.checkMemoryAfter(call);
      return call;
    };
    if (!isOwned) return await start();
    const wait = mode.kind === "wait";
    return await this.#owned.join({ name, ownerId, wait, signal, start });
  }

  async #steal(name: string, options: AcquireOptions): Promise<Lease> {
    for (;;) {
      this.#check(name, options);
      const { value } = await this.#read(name);
      const mode: AskMode = value === null ? { kind: "try" } : { kind: "steal", victim: value };
      const lease = await this.#take(name, options, mode);
      if (lease !== null) return lease; // else the holder changed meanwhile
    }
  }

  async #read(name: string): Promise<QueryAnswer> {
    const keys = this.#keys(name);
    const budget = this.#budget(name, this.#lifetime.ended);
    for (;;) {
      try {
        return await budget.settle(this.#commands.query(keys), this.#lifetime.ended);
      } catch (error) {
        await budget.recover(error);
      }
    }
  }

  #budget(lockName: string, signal: AbortSignal): OutageBudget {
    return new OutageBudget({
      clock: this.#engine.clock,
      service: "Redis",
      lockName,
      unavailableAfterMs: this.#options.unavailableAfterMs,
      signal,
      classify: classifyFailure,
    });
  }

  /** Gives the lock back or leaves the queue. */
  async #leave(
    keys: LockKeys,
    value: string,
    tombstoneMs: number,
    keeps = false,
  ): Promise<LeaveAnswer> {
    const { handoff } = this.#options;
    const left = await this.#commands.leave(keys, value, tombstoneMs, handoff, keeps);
    if (!left.isNotified) this.#warnings.untold();
    return left;
  }

  #receive(message: InboxMessage): void {
    const receiver = this.#receivers.get(message.value);
    if (receiver !== undefined) return receiver.receive(message);
    if (message.kind !== "grant") return;
    // Granted to one that has gone: hand it on.
    const { lockKey, value } = message;
    this.#engine.background.run(async () => {
      await this.#leave(lockKeys("", lockKey), value, 2 * ASK_LIFE_MS);
    });
  }
}
