import { isListable } from "../core/contract/call_options.ts";
import type {
  DistributedLock,
  Lease,
  LockMode,
  RequestOptions,
} from "../core/contract/distributed_lock.ts";
import { LeaseLostError } from "../core/contract/errors.ts";
import { lossOf } from "../core/contract/request.ts";
import { abortable } from "../core/time/clock.ts";
import { label, notSupported, type OptionTable, readTable } from "../core/contract/options.ts";
import { readArguments } from "./arguments.ts";
import { lockName, webName } from "./names.ts";
import { RequestOrder } from "./request_order.ts";

/** Options of {@linkcode webLocks}. */
export interface WebLocksOptions {
  /**
   * The `clientId` of its locks in `query()`, and their label for other programs. 1 to 100 characters, no
   * control characters.
   *
   * @default a random UUID
   */
  clientId?: string | undefined;
}

const WEB_LOCKS_OPTIONS: OptionTable<WebLocksOptions> = { clientId: label() };

/** A lock that is held, as the callback of {@linkcode WebLocks.request} gets it. */
export interface WebLock {
  /** The name of the lock. */
  readonly name: string;
  /** Whether it is held alone. */
  readonly mode: LockMode;
  /** What browsers do not have, for there no lock is lost unless it is stolen: signal, token, and time left. */
  readonly lease: Lease;
}

/** Options of {@linkcode WebLocks.request}. Unknown ones are ignored. */
export interface WebLockOptions {
  /**
   * Whether the lock excludes all others, or only exclusive ones.
   *
   * @default {"exclusive"}
   */
  mode?: LockMode | undefined;
  /**
   * Whether to call the callback with `null`, instead of waiting, if the lock is not free.
   *
   * @default {false}
   */
  ifAvailable?: boolean | undefined;
  /**
   * Whether to take the lock from its holders, ahead of all waiters.
   *
   * @default {false}
   */
  steal?: boolean | undefined;
  /** Ends the wait. Has no effect once the lock is granted. */
  signal?: AbortSignal | undefined;
}

/** A lock that is held or asked for, as {@linkcode WebLocks.query} reads it. */
export interface WebLockInfo {
  /** The name of the lock. */
  name: string;
  /** Whether it is held, or wanted, alone. */
  mode: LockMode;
  /** Which client: the same for all locks of one `webLocks()`. Of another program: its label, perhaps `""`. */
  clientId: string;
}

/** The locks that {@linkcode WebLocks.query} has read. They may have changed since. */
export interface WebLockSnapshot {
  /** The holders, by name; of one name the first 64. */
  held: WebLockInfo[];
  /** Who waits, by name, the next in line first; of one name the first 64. */
  pending: WebLockInfo[];
}

/** What `navigator.locks` is. */
export interface WebLocks {
  /**
   * Waits for a lock, runs a callback under it, and releases it when the callback has settled.
   *
   * @throws {unknown} The error of the callback, or `signal.reason`.
   * @throws {TypeError} If an argument has a wrong type.
   * @throws {RangeError} If the name is longer than the strategy takes: 1,000 UTF-16 code units.
   * @throws {DOMException} `AbortError` as soon as the lease is lost, stolen or not, even if the callback never
   * settles; its `cause` is the `LeaseLostError`. `NotSupportedError` for a name that begins with "-", for
   * combinations of options that the Web Locks API refuses, and for what the strategy does not offer.
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  request<T>(name: string, callback: (lock: WebLock) => T | Promise<T>): Promise<T>;
  /** The same with options. */
  request<T>(
    name: string,
    options: WebLockOptions & { ifAvailable?: false | undefined },
    callback: (lock: WebLock) => T | Promise<T>,
  ): Promise<T>;
  /** The same with `ifAvailable: true`: the callback gets `null` if the lock is not free. */
  request<T>(
    name: string,
    options: WebLockOptions,
    callback: (lock: WebLock | null) => T | Promise<T>,
  ): Promise<T>;
  /**
   * Reads who holds locks and who waits. It sees all requests of this object that were made before. Without a name it
   * lists all locks, and reads one after the other: what the strategy's `list()` costs, and a request for each.
   *
   * @throws {DOMException} `NotSupportedError` without a name, unless the strategy's `capabilities.list` is true.
   * @throws {LockUnavailableError} In an outage of the service.
   * @throws {LockSetupError} If the service refuses, and will refuse again.
   */
  query(name?: string): Promise<WebLockSnapshot>;
}

/**
 * Makes what `navigator.locks` is of the locks of any strategy: the same locks and names, with the arguments, the
 * errors and the order of the [Web Locks API](https://w3c.github.io/web-locks/).
 *
 * Unlike there, a lock can be lost while its callback runs, and a network or a server can fail: the page
 * [docs/web-locks.md](../docs/web-locks.md) says what is promised. Its requests and those of `locks` itself exclude
 * each other.
 *
 * @param locks The locks. They stay yours: dispose of them when no request is left.
 * @throws {TypeError} If an argument has a wrong type.
 * @throws {RangeError} If an option is out of range.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { webLocks } from "@holdfast/lock/web-locks";
 * import { assertEquals } from "@std/assert";
 *
 * await using memory = new MemoryLock();
 * const locks = webLocks(memory, { clientId: "worker-3" });
 * await locks.request("orders:42", async ({ lease }) => {
 *   lease.throwIfLost();
 *   const { held } = await locks.query("orders:42");
 *   assertEquals(held, [{ name: "orders:42", mode: "exclusive", clientId: "worker-3" }]);
 * });
 * ```
 */
export function webLocks(locks: DistributedLock, options: WebLocksOptions = {}): WebLocks {
  if (typeof locks?.request !== "function" || typeof locks.query !== "function") {
    throw new TypeError("Cannot use this in webLocks(): pass a lock such as new RedisLock(client)");
  }
  const { clientId } = readTable("webLocks()", options, WEB_LOCKS_OPTIONS);
  return new LocksOfClient(locks, clientId ?? crypto.randomUUID());
}

class LocksOfClient implements WebLocks {
  readonly #locks: DistributedLock;
  readonly #clientId: string;
  readonly #order = new RequestOrder();

  constructor(locks: DistributedLock, clientId: string) {
    this.#locks = locks;
    this.#clientId = clientId;
  }

  // deno-lint-ignore no-explicit-any -- the interface has the types of each form
  readonly request = async (...args: any[]): Promise<any> => {
    const { name, callback, ...asked } = readArguments(args);
    const { ifAvailable, signal } = asked;
    signal?.throwIfAborted();
    const answer = this.#order.enter(name);
    const lost = Promise.withResolvers<never>();
    lost.promise.catch(() => {}); // also when the request has failed before
    let ownError: unknown;
    const runUnder = async (lease: Lease | null): Promise<unknown> => {
      const watch = ({ reason }: AbortSignal) => lost.reject(brokenLock(name, reason));
      lease?.signal.addEventListener("abort", () => watch(lease.signal), { once: true });
      await answer.granted();
      // Meanwhile a suspension may have left it unproven: the service is asked. Or it was lost, or the request
      // aborted: then the callback never begins.
      if (lease?.remainingMs === 0) {
        const proven = lossOf(lease);
        await (signal ? abortable(proven, signal) : proven);
      }
      if (lease?.signal.aborted) throw lease.signal.reason;
      signal?.throwIfAborted();
      try {
        return await callback(lease && { name, mode: lease.mode, lease });
      } catch (error) {
        throw ownError = error;
      } finally {
        if (lease?.isHeld) await this.#order.mayRelease(name);
      }
    };
    const options: RequestOptions = {
      ...asked,
      label: this.#clientId,
      // A refused try reports a wait, too, but its callback begins in its turn.
      onWait: ifAvailable ? undefined : () => answer.waits(),
    };
    const ended = this.#locks.request(lockName(name), options, runUnder)
      .finally(() => answer.end());
    const settled = ended.catch((error) => {
      const isLoss = error instanceof LeaseLostError && error !== ownError;
      throw isLoss ? brokenLock(name, error) : error;
    });
    return await Promise.race([settled, lost.promise]);
  };

  readonly query = async (name?: string): Promise<WebLockSnapshot> => {
    const locks = this.#locks;
    if (name !== undefined) {
      await this.#order.answered();
      return await this.#read(lockName(`${name}`));
    }
    if (!isListable(locks)) {
      throw notSupported("Cannot query all locks: this strategy cannot list them, so pass a name");
    }
    await this.#order.answered();
    const names = new Set<string>();
    for await (const lock of locks.list()) names.add(lock);
    const all: WebLockSnapshot = { held: [], pending: [] };
    for (const lock of names) {
      const { held, pending } = await this.#read(lock);
      all.held.push(...held);
      all.pending.push(...pending);
    }
    return all;
  };

  async #read(lock: string): Promise<WebLockSnapshot> {
    const { holders, waiters } = await this.#locks.query(lock);
    const name = webName(lock);
    return {
      held: holders.map(({ mode, label = "" }) => ({ name, mode, clientId: label })),
      pending: waiters.map(({ mode = "exclusive", label = "" }) => ({
        ...{ name, mode, clientId: label },
      })),
    };
  }
}

/** The error of a request whose lease is lost. */
function brokenLock(name: string, cause: unknown): DOMException {
  const why = cause instanceof LeaseLostError ? cause.reason : "lost";
  const message = `Lock ${JSON.stringify(name)} was lost while its callback ran: ${why}`;
  return Object.assign(new DOMException(message, "AbortError"), { cause });
}
