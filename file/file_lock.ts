/**
 * `FileLock`: its calls, polling and leases. How a single file is locked is in `lock_file.ts`.
 *
 * @module
 */
import { capabilitiesOf } from "../core/capabilities.ts";
import { instant, pause } from "../core/clock.ts";
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RequestMethod,
  TryAcquireOptions,
} from "../core/distributed_lock.ts";
import { LockUnavailableError } from "../core/errors.ts";
import { LeaseEngine } from "../core/lease_engine.ts";
import { Lifetime, type StrategyOptions } from "../core/lifetime.ts";
import { makeOwnerId } from "../core/owner_id.ts";
import { requestOn } from "../core/request.ts";
import { LocalQueue, type LocalWaiter, type Turn } from "../core/local_queue.ts";
import { checkAcquireOptions, checkDuration, checkName, checkString } from "../core/validate.ts";
import { checkPrivate, defaultDir, lockPath, makeDir } from "./directory.ts";
import { type HeldFile, isHeld, type LockerId, peek, tryLock } from "./lock_file.ts";

/** Options of {@linkcode FileLock}. */
export interface FileLockOptions extends StrategyOptions {
  /**
   * The directory of the lock files, created if it does not exist. Processes exclude each other
   * only if they use the same directory, on a local file system (not NFS or SMB). The default is
   * `holdfast` in `$XDG_RUNTIME_DIR`, else in the temporary directory, and needs `--allow-env`. It
   * may differ between a shell, a service and a cron job, so set `dir` when these share a lock.
   */
  dir?: string;
  /**
   * The interval, in ms, at which a waiting process tries to lock the file.
   *
   * @default {10}
   */
  pollIntervalMs?: number;
}

/** Default of {@linkcode FileLockOptions.pollIntervalMs}, in ms. */
export const DEFAULT_POLL_INTERVAL_MS = 10;
/** The interval, in ms, at which a holder checks that its file is still in place. */
const WATCH_MS = 1_000;
/** How often `tryAcquire()` tries again, because a `query()` may have locked the file for a moment. */
const BRIEF_LOCK_TRIES = 20;

/**
 * Named locks between the processes of one machine, without a server.
 *
 * The kernel frees its lock on a file (`flock`, or `LockFileEx` on Windows) when the process ends,
 * however it ends. So there is no TTL, and `remainingMs` is `Infinity`. Waiters of one instance are
 * served first in, first out. Between instances there is no order: each polls, but one that was
 * granted the lock eight times in a row while another one waits skips one poll. If the lock file is
 * removed or replaced, its holder loses the lease as `"stolen"` within a second. Fencing tokens are
 * `max(previous + 1, wall clock in µs)`.
 *
 * Needs `--allow-read` and `--allow-write` for the directory. Local file systems only.
 *
 * @example Usage
 * ```ts
 * import { FileLock } from "@holdfast/lock/file";
 * import { assertEquals } from "@std/assert";
 *
 * const dir = await Deno.makeTempDir();
 * {
 *   await using locks = new FileLock({ dir });
 *   await using lease = await locks.acquire("nightly-report");
 *   assertEquals(lease.remainingMs, Infinity);
 * }
 * await Deno.remove(dir, { recursive: true });
 * ```
 */
export class FileLock implements DistributedLock {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities = capabilitiesOf({
    fifo: "process",
    endsBy: "process-death",
  });
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this);
  readonly #engine = new LeaseEngine();
  readonly #lifetime: Lifetime;
  readonly #queue = new LocalQueue();
  readonly #locker: LockerId;
  /** The waiter that polls for each name. */
  readonly #polling = new Map<string, LocalWaiter>();
  readonly #dir: string | undefined;
  readonly #pollIntervalMs: number;
  /** The directory in use; `null` until it is created and checked. */
  #readyDir: string | null = null;

  /**
   * Creates a manager of locks. Nothing is written before the first call.
   *
   * @param options Directory, polling, label, and the time limit of disposal.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(options: FileLockOptions = {}) {
    const { dir, pollIntervalMs = DEFAULT_POLL_INTERVAL_MS } = options;
    if (dir !== undefined) checkString("dir", dir);
    checkDuration("pollIntervalMs", pollIntervalMs);
    this.#lifetime = new Lifetime(options);
    this.#dir = dir;
    this.#pollIntervalMs = pollIntervalMs;
    this.#locker = { id: crypto.randomUUID().slice(0, 8), label: this.#lifetime.label };
  }

  /** Waits for the lock and acquires it. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    this.#check(name, options);
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const turn = await this.#queue.enter(name, { signal, onWait: options.onWait });
    try {
      return this.#open(name, turn, await this.#wait(name, signal, options.onWait), options);
    } catch (error) {
      turn.end();
      throw error;
    }
  }

  /** Acquires the lock if it is free now. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: TryAcquireOptions = {}): Promise<Lease | null> {
    this.#check(name, options);
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const turn = this.#queue.tryEnter(name);
    if (turn === null) return null;
    try {
      const file = await this.#tryAcquireFile(name, signal);
      if (file !== null) return this.#open(name, turn, file, options);
    } catch (error) {
      turn.end();
      throw error;
    }
    turn.end();
    return null;
  }

  /**
   * Reads the holder of a lock, and its waiters in this instance. See
   * {@linkcode DistributedLock.query}.
   */
  // deno-lint-ignore require-await -- bad arguments must reject, not throw
  async query(name: string): Promise<LockSnapshot> {
    this.#check(name, {});
    const [record, held] = this.#guard(name, () => {
      const path = this.#path(name);
      const record = peek(path);
      return [record, record !== null && record.held && isHeld(path)] as const;
    });
    const polling = this.#polling.get(name);
    const nowMs = performance.now();
    const waiters = [...polling ? [polling] : [], ...this.#queue.waiters(name)]
      .map(({ sinceMs }) => ({ waitedMs: nowMs - sinceMs }));
    return {
      name,
      holders: held
        ? [{ ...(record!.label ? { label: record!.label } : {}), fencingToken: record!.token }]
        : [],
      waiters,
      waiterCount: waiters.length,
    };
  }

  /** Rejects waiters with an `AbortError` and releases all leases. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#lifetime.end(() => this.#engine.close(this.#lifetime.disposeTimeoutMs));
  }

  #check(name: string, options: AcquireOptions): void {
    checkName(name);
    checkAcquireOptions(options);
    this.#lifetime.throwIfEnded();
  }

  /** Polls until the file is locked. Of all waiters of this instance only the first one polls. */
  async #wait(
    name: string,
    signal: AbortSignal,
    onWait: AcquireOptions["onWait"],
  ): Promise<HeldFile> {
    try {
      for (let yielded = false;;) {
        signal.throwIfAborted();
        const result = this.#tryLock(name, !yielded);
        if (typeof result === "object") return result;
        if (!this.#polling.has(name)) {
          this.#polling.set(name, { sinceMs: performance.now() });
          onWait?.({});
        }
        yielded = result === "yield";
        await pause(this.#engine.clock, this.#pollMs(), signal);
      }
    } finally {
      this.#polling.delete(name);
    }
  }

  /**
   * Locks the file if it is free. A `query()` locks the file for a moment, so a locked file that is
   * not marked as held is tried again.
   */
  async #tryAcquireFile(name: string, signal: AbortSignal): Promise<HeldFile | null> {
    for (let tries = 0;; tries++) {
      const result = this.#tryLock(name, false);
      if (typeof result === "object") return result;
      const record = this.#guard(name, () => peek(this.#path(name)));
      if (tries === BRIEF_LOCK_TRIES || record?.held) return null;
      await pause(this.#engine.clock, 1, signal);
      signal.throwIfAborted();
    }
  }

  #tryLock(name: string, mayYield: boolean): ReturnType<typeof tryLock> {
    return this.#guard(name, () => tryLock(this.#path(name), name, this.#locker, mayYield));
  }

  /** The time in ms until the next poll. Jitter keeps two processes from polling in step. */
  #pollMs(): number {
    return this.#pollIntervalMs * (0.75 + Math.random() / 2);
  }

  #path(name: string): string {
    if (this.#readyDir === null) {
      const dir = this.#dir ?? defaultDir();
      makeDir(dir);
      if (this.#dir === undefined) checkPrivate(dir);
      this.#readyDir = dir;
    }
    return lockPath(this.#readyDir, name);
  }

  /**
   * Runs an action on the file of a lock. If the directory was removed, creates it and tries once
   * more.
   *
   * @throws {LockUnavailableError} If the file system refuses.
   */
  #guard<T>(name: string, action: () => T): T {
    try {
      return action();
    } catch (cause) {
      if (this.#readyDir !== null && cause instanceof Deno.errors.NotFound) {
        this.#readyDir = null;
        return this.#guard(name, action);
      }
      const why = cause instanceof Error ? cause.message : String(cause);
      const message = `Cannot use the file of lock ${JSON.stringify(name)}: ${why}`;
      throw new LockUnavailableError(message, name, { cause });
    }
  }

  #open(name: string, turn: Turn, file: HeldFile, options: AcquireOptions): Lease {
    if (this.#lifetime.ended.aborted) {
      file.release();
      throw this.#lifetime.ended.reason;
    }
    return this.#engine.open({
      name,
      ownerId: makeOwnerId(this.#locker.label),
      fencingToken: file.token,
      sent: instant(this.#engine.clock),
      ttlMs: Infinity,
      validMs: Infinity,
      autoRenew: false,
      maxHoldMs: options.maxHoldMs,
      watchEveryMs: WATCH_MS,
    }, {
      // deno-lint-ignore require-await -- a failing stat must reject
      renew: async () =>
        file.isInPlace()
          ? { state: "held", validMs: Infinity }
          : { state: "lost", reason: "stolen" },
      // deno-lint-ignore require-await -- a failing write must reject
      release: async () => {
        const inPlace = isInPlace(file);
        turn.end();
        file.release();
        return inPlace ? { state: "released" } : { state: "gone", reason: "stolen" };
      },
    })!; // open() returns null only for a grant whose TTL is over, and there is no TTL here
  }
}

function isInPlace(file: HeldFile): boolean {
  try {
    return file.isInPlace();
  } catch {
    return false;
  }
}
