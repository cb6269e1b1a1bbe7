import { EventEmitter } from "node:events";
import { LeaseLostError, LockError, LockTimeoutError } from "../core/contract/errors.ts";
import { ttl } from "../core/contract/options.ts";
import type { LeaseSet } from "../core/sets/lease_set.ts";
import { type ClientLocks, clientLocks } from "./client_locks.ts";
import { clockedSignal, type RedlockAbortSignal } from "./clocked_signal.ts";
import { ExecutionError, type ExecutionStats, ResourceLockedError } from "./errors.ts";
import type { ExecutionResult } from "./errors.ts";
import { attemptsOf, databaseOf, onlyClient, readSettings, waitMsOf } from "./settings.ts";
import type { RedlockClient, RedlockSettings } from "./settings.ts";

const NO_QUORUM = "The operation was unable to achieve a quorum during its retry window.";

/** What the routine of `using()` gets besides the signal. */
export interface RedlockUsingContext {
  /** The lock. Its `expiration` is that of the grant. */
  readonly lock: Lock;
}

/**
 * A lock that was acquired.
 *
 * @example Usage
 * ```ts ignore
 * import { Redlock } from "@holdfast/lock/redlock";
 * import { Redis } from "ioredis";
 *
 * const client = new Redis("redis://127.0.0.1:6379");
 * const redlock = new Redlock([client]);
 * let lock = await redlock.acquire(["orders:42"], 10_000);
 * lock = await lock.extend(20_000);
 * await lock.release();
 * await redlock.quit();
 * ```
 */
export class Lock {
  /** The manager of the lock. */
  readonly redlock: Redlock;
  /** The keys. */
  readonly resources: string[];
  /** What the keys hold. A secret: it is enough to release the lock. */
  readonly value: string;
  /** The outcome of the acquisition. */
  readonly attempts: readonly Promise<ExecutionStats>[];
  /** Until when the lock is valid, in ms since the epoch; 0 once it is released or extended. */
  expiration: number;

  /** Makes a lock, also for one that another process has acquired: by its value. */
  constructor(
    redlock: Redlock,
    resources: string[],
    value: string,
    attempts: readonly Promise<ExecutionStats>[],
    expiration: number,
  ) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
  }

  /** The keys, as version 4 calls them. */
  get resource(): string[] {
    return this.resources;
  }

  /**
   * Releases the lock.
   *
   * @throws {ExecutionError} If it was lost before, or Redis cannot be reached or used.
   */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /**
   * `release()`, as version 4 calls it.
   *
   * @throws {ExecutionError} As `release()`.
   * @throws {TypeError} If there is a callback.
   */
  unlock(callback?: undefined): Promise<void> {
    return this.redlock.unlock(this, callback);
  }

  /**
   * Extends the lock to `duration` ms from now, if that is later than its end. This object is over then.
   *
   * @param duration The time to live in ms.
   * @returns The lock to go on with.
   * @throws {ExecutionError} If it was lost before, or Redis cannot be reached or used.
   * @throws {TypeError} If there is a callback.
   */
  extend(duration: number, callback?: undefined): Promise<Lock> {
    return this.redlock.extend(this, duration, callback);
  }
}

/**
 * The class of the package redlock, for programs that are written for it: acquires, extends and releases locks on one
 * Redis server or cluster, on the same keys, so that old and new processes exclude each other.
 *
 * It waits in a queue instead of polling, first come, first served; a lost reply leaves no lock behind; the signal of
 * `using()` aborts before the lock ends. Several resources are acquired in the order of their names, not of the list.
 * Emits `error` with each failure, which needs no listener, and `clientError` if it is one of the client.
 *
 * @example Usage
 * ```ts ignore
 * import { Redlock } from "@holdfast/lock/redlock";
 * import { Redis } from "ioredis";
 *
 * const client = new Redis("redis://127.0.0.1:6379");
 * const redlock = new Redlock([client], { retryCount: 25 });
 * await redlock.using(["account:3", "account:7"], 5_000, async (signal) => {
 *   if (signal.aborted) throw signal.error;
 * });
 * await redlock.quit();
 * ```
 */
export class Redlock extends EventEmitter {
  /** The class of locks. */
  static readonly Lock: typeof Lock = Lock;
  /** The class of errors, as version 4 calls it. */
  static readonly LockError: typeof ExecutionError = ExecutionError;
  /** The class of locks, where version 4 has it, too. */
  readonly Lock: typeof Lock = Lock;
  /** The class of errors, where version 4 has it, too. */
  readonly LockError: typeof ExecutionError = ExecutionError;
  /** The client. */
  readonly clients: ReadonlySet<RedlockClient>;
  /** The settings, with their defaults. */
  readonly settings: Required<RedlockSettings>;
  readonly #client: RedlockClient;
  readonly #locks: ClientLocks;

  /**
   * Makes a manager of locks.
   *
   * @param clients One client of ioredis.
   * @throws {TypeError} If there is no client or more than one, or if there are own scripts, a `keyPrefix` setting,
   * or a `db` other than the client's.
   * @throws {LockSetupError} If the client is not one of ioredis, or has a `keyPrefix`.
   */
  constructor(
    clients: Iterable<RedlockClient>,
    settings: RedlockSettings = {},
    scripts: object = {},
  ) {
    super();
    this.on("error", () => {}); // without a listener Node would throw it
    this.clients = new Set(clients);
    const client = onlyClient(this.clients);
    const own = [...Object.keys(scripts), ...Object.keys(settings)].find((name) =>
      name.endsWith("Script")
    );
    if (own !== undefined) {
      throw new TypeError(
        `Cannot use '${own}': the scripts keep the queue and the fencing token, and are not to be ` +
          "changed; leave it out",
      );
    }
    const { db } = settings as { db?: unknown };
    if (typeof db === "number" && db !== databaseOf(client)) {
      throw new TypeError(
        `Cannot use the database ${db}: the locks are in that of the client; make a client for it`,
      );
    }
    this.settings = readSettings(settings);
    this.#client = client;
    this.#locks = clientLocks(client);
  }

  /**
   * Releases the locks that are still held on the client, then closes it.
   *
   * @throws {TypeError} If there is a callback.
   */
  async quit(callback?: undefined): Promise<void> {
    refuseCallback(callback);
    await this.#locks.close();
    await this.#client.quit();
  }

  /**
   * Waits for the locks of all resources, and acquires them for `duration` ms. They are not extended automatically.
   *
   * @param resources The keys; also a single one, as in version 4.
   * @param duration The time to live in ms, up to 24 days.
   * @throws {ExecutionError} If somebody else has a lock until the end of the wait, or Redis cannot be reached or
   * used.
   * @throws {TypeError|RangeError} If an argument is bad, or a callback.
   * @throws {Error} If the duration is not a whole number.
   */
  async acquire(
    resources: string | readonly string[],
    duration: number,
    settings: RedlockSettings = {},
  ): Promise<Lock> {
    return (await this.#acquire(resources, duration, this.#settingsOf(settings), false)).lock;
  }

  /**
   * `acquire()`, as version 4 calls it.
   *
   * @param duration The time to live in ms.
   * @throws {ExecutionError|TypeError|RangeError|Error} As `acquire()`.
   */
  lock(
    resources: string | readonly string[],
    duration: number,
    settings: RedlockSettings = {},
  ): Promise<Lock> {
    return this.acquire(resources, duration, settings);
  }

  /**
   * `acquire()`, as version 4 calls it with settings.
   *
   * @param duration The time to live in ms.
   * @throws {ExecutionError|TypeError|RangeError|Error} As `acquire()`. A callback is a `TypeError`, too.
   */
  async lockWithOptions(
    resources: string | readonly string[],
    duration: number,
    settings: RedlockSettings,
    callback?: undefined,
  ): Promise<Lock> {
    refuseCallback(callback);
    return await this.acquire(resources, duration, settings);
  }

  /**
   * `acquire()`, by its other name in version 4.
   *
   * @param duration The time to live in ms.
   * @throws {ExecutionError|TypeError|RangeError|Error} As `acquire()`. A callback is a `TypeError`, too.
   */
  acquireWithOptions(
    resources: string | readonly string[],
    duration: number,
    settings: RedlockSettings,
    callback?: undefined,
  ): Promise<Lock> {
    return this.lockWithOptions(resources, duration, settings, callback);
  }

  async #acquire(
    resources: string | readonly string[],
    duration: number,
    settings: Required<RedlockSettings>,
    autoRenew: boolean,
  ): Promise<{ lock: Lock; set: LeaseSet }> {
    checkDuration(duration);
    const names = typeof resources === "string" ? [resources] : [...new Set(resources)];
    const terms = { ttlMs: duration, autoRenew, waitMs: waitMsOf(settings) };
    try {
      const { value, set } = await this.#locks.acquire(names, terms, this.settings.handoff);
      return { lock: this.#lockOf(names, value, set, duration, settings), set };
    } catch (error) {
      throw this.#failure(error, names, settings);
    }
  }

  /**
   * Extends a lock to `duration` ms from now, if that is later than its end.
   *
   * @param duration The time to live in ms.
   * @returns The lock to go on with. The given one is over.
   * @throws {ExecutionError} If a key was lost before (then none is kept for longer than 1 s and 50 ms for each
   * key, unless it was already), or Redis cannot be reached or used.
   * @throws {TypeError|RangeError} If an argument is bad.
   * @throws {Error} If the duration is not a whole number.
   */
  async extend(existing: Lock, duration: number, settings: RedlockSettings = {}): Promise<Lock> {
    checkDuration(duration);
    const read = this.#settingsOf(settings);
    if (existing.expiration < Date.now()) {
      throw new ExecutionError("Cannot extend an already-expired lock.", []);
    }
    const { resources } = existing;
    try {
      const { value, set } = await this.#locks.extend(existing, duration, this.settings.handoff);
      existing.expiration = 0;
      return this.#lockOf(resources, value, set, duration, read);
    } catch (error) {
      throw this.#failure(error, resources, read);
    }
  }

  /**
   * Releases a lock.
   *
   * @throws {ExecutionError} If it was lost before, or Redis cannot be reached or used.
   */
  async release(lock: Lock, settings: RedlockSettings = {}): Promise<ExecutionResult> {
    const read = this.#settingsOf(settings);
    const start = Date.now();
    lock.expiration = 0;
    try {
      await this.#locks.release(lock, this.settings.handoff);
      return { attempts: [this.#stats(undefined)], start };
    } catch (error) {
      throw this.#failure(error, lock.resources, read);
    }
  }

  /**
   * `release()`, as version 4 calls it.
   *
   * @throws {ExecutionError} As `release()`.
   * @throws {TypeError} If there is a callback.
   */
  async unlock(lock: Lock, callback?: undefined): Promise<void> {
    refuseCallback(callback);
    await this.release(lock);
  }

  /**
   * Runs a routine under locks that are extended while it runs, and releases them.
   *
   * @param duration The time to live in ms.
   * @param settings Settings of this call, or the routine.
   * @param routine Gets a signal that aborts when a lock is lost; `signal.error` says why.
   * @throws {unknown} The error of the routine.
   * @throws {ExecutionError} If the locks are not acquired, or were lost before the routine has ended.
   * @throws {TypeError|RangeError} If an argument is bad.
   * @throws {Error} If the duration is not a whole number, or too short for the settings.
   */
  async using<T>(
    resources: string | readonly string[],
    duration: number,
    settings: RedlockSettings | Routine<T>,
    routine?: Routine<T>,
  ): Promise<T> {
    const run = typeof settings === "function" ? settings : routine;
    const read = this.#settingsOf(typeof settings === "function" ? {} : settings);
    if (typeof run !== "function") throw new TypeError("INVARIANT: routine is not a function.");
    checkDuration(duration);
    if (read.automaticExtensionThreshold > duration - 100) {
      throw new Error(
        "A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.",
      );
    }
    const { lock, set } = await this.#acquire(resources, duration, read, true);
    const { signal, end } = clockedSignal(set);
    let result: T;
    try {
      result = await run(signal, { lock });
    } catch (error) {
      end();
      await this.release(lock).catch(() => {}); // the routine's own error wins
      throw error;
    }
    end();
    await this.release(lock);
    return result;
  }

  /**
   * Not supported: it makes a disposer of bluebird.
   *
   * @throws {TypeError} Always.
   */
  disposer(): never {
    throw new TypeError("Cannot make a disposer of bluebird: use using(), which releases, too");
  }

  #settingsOf(settings: RedlockSettings | null | undefined): Required<RedlockSettings> {
    refuseCallback(settings);
    return readSettings(settings ?? {}, this.settings);
  }

  #lockOf(
    resources: string[],
    value: string,
    set: LeaseSet,
    duration: number,
    { driftFactor }: Required<RedlockSettings>,
  ): Lock {
    const driftMs = Math.round(driftFactor * duration) + 2;
    const endMs = Date.now() + Math.min(duration - driftMs, set.remainingMs);
    return new Lock(this, resources, value, [this.#stats(undefined)], Math.floor(endMs));
  }

  #stats(error: Error | undefined): Promise<ExecutionStats> {
    return Promise.resolve({
      membershipSize: 1,
      quorumSize: 1,
      votesFor: new Set(error === undefined ? [this.#client] : []),
      votesAgainst: new Map(error === undefined ? [] : [[this.#client, error]]),
    });
  }

  /** The error of redlock for one of ours. Bad arguments stay as they are. */
  #failure(error: unknown, names: readonly string[], settings: Required<RedlockSettings>): unknown {
    const isClosed = error instanceof DOMException && error.name === "AbortError";
    if (!isClosed && !(error instanceof LockError)) return error;
    const isLocked = error instanceof LockTimeoutError ||
      error instanceof LeaseLostError && error.reason !== "unreachable";
    const vote = isLocked
      ? new ResourceLockedError(
        `The operation was applied to: 0 of the ${names.length} requested resources.`,
        { cause: error },
      )
      : isClosed
      ? new Error("Connection is closed.", { cause: error })
      : firstCauseOf(error as Error);
    this.emit("error", vote);
    if (!isLocked) this.emit("clientError", vote);
    const attempts = Array.from({ length: attemptsOf(settings) }, () => this.#stats(vote));
    return new ExecutionError(NO_QUORUM, attempts, { cause: error });
  }
}

/** The types of version 4, by the names that its programs write. */
export declare namespace Redlock {
  /** A lock that was acquired. */
  export type Lock = InstanceType<typeof Redlock.Lock>;
  /** The error of a call. */
  export type LockError = ExecutionError;
  /** The settings. */
  export type Options = RedlockSettings;
}

/** The routine of `using()`. */
export type Routine<T> = (signal: RedlockAbortSignal, context: RedlockUsingContext) => Promise<T>;

/** A callback of version 4 would never be called. */
function refuseCallback(argument: unknown): void {
  if (typeof argument !== "function") return;
  throw new TypeError("Cannot use a callback: await the promise that the call returns");
}

function checkDuration(duration: number): void {
  if (!Number.isInteger(duration)) {
    throw new Error("Duration must be an integer value in milliseconds.");
  }
  ttl().check("'ttlMs'", duration);
}

function firstCauseOf(error: Error): Error {
  return error.cause instanceof Error ? firstCauseOf(error.cause) : error;
}
