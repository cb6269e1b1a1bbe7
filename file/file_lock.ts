/**
 * `FileLock`: its calls, waits and leases. How a single file is locked is in `lock_file.ts`.
 *
 * @module
 */
import { BoundedWaits } from "../core/time/bounded_wait.ts";
import {
  ACQUIRE_OPTIONS,
  checkAcquireOptions,
  readMaxWaiters,
} from "../core/contract/call_options.ts";
import { instant, pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockHolder,
  LockSnapshot,
  QueryOptions,
  RequestMethod,
  TryAcquireOptions,
} from "../core/contract/distributed_lock.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import { LocalQueue, type LocalWaiter, type Turn } from "../core/lease/local_queue.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { makeOwnerId } from "../core/contract/owner_id.ts";
import { requestOn } from "../core/contract/request.ts";
import { checkName } from "../core/contract/options.ts";
import { DirectoryChanges } from "./directory_changes.ts";
import { actionsOf } from "./lease_actions.ts";
import type { HeldFile, NotLocked } from "./lock_file.ts";
import { LockFiles } from "./lock_files.ts";
import { type FileLockOptions, readOptions } from "./options.ts";
import { chooseFileSystem } from "./system/choose.ts";
import { WaitNotice } from "./wait_notice.ts";
import type { Waiter } from "./waiter.ts";
import { WATCH_CLOCK } from "./watch_clock.ts";

/** The interval, in ms, at which a holder checks that its file is still in place. */
const WATCH_MS = 1_000;
/** How often a call looks again, because an instance may have locked the file for a moment only. */
const BRIEF_LOCK_TRIES = 20;

/**
 * Named locks between the processes of one machine, without a server.
 *
 * The kernel frees its lock on a file (`flock`, or `LockFileEx` on Windows) when the process ends,
 * however it ends. So there is no TTL, and `remainingMs` is `Infinity`. Waiters of one instance are
 * served first in, first out. On Linux a watch of the directory notifies waiting instances when the
 * lock is free, in Deno also if its holder was killed; elsewhere they poll. Between instances there is no order,
 * but one that was granted the lock eight times in a row lets others go first. So `onWait` and `query()`
 * know the waiters of this instance only.
 *
 * If the lock file is removed or replaced, its holder loses the lease as `"stolen"` within a second.
 * Files that nobody uses are deleted (see `keepFiles`), except one that remembers their tokens.
 * Fencing tokens are `max(previous + 1, wall clock in µs)`.
 *
 * Works with Deno 2.8 or later, with Node 22.12 or later if the package `koffi` is installed, and with Bun
 * 1.3 or later. Processes of all three exclude each other. On Windows it works with Deno only.
 *
 * Deno needs `--allow-read` and `--allow-write` for the directory. The directories above are checked as
 * far as `--allow-read` permits. Local file systems only.
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
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "process",
    endsBy: "process-death",
    steal: false,
    attach: false,
    shared: false,
  });
  readonly #nesting = new Nesting();
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this, {
    options: ACQUIRE_OPTIONS,
    nesting: this.#nesting,
  });
  readonly #engine = new LeaseEngine(SYSTEM_CLOCK, undefined, WATCH_CLOCK);
  readonly #lifetime: Lifetime;
  readonly #queue = new LocalQueue();
  readonly #files: LockFiles;
  readonly #changes: DirectoryChanges;
  /** For each name, the waiter of this instance that is not in the queue, as it waits for the file. */
  readonly #waiting = new Map<string, LocalWaiter>();
  readonly #bounded: BoundedWaits<AcquireOptions> = new BoundedWaits({
    check: (name, options) => this.#check(name, options),
    wait: (name, options) => this.#acquire(name, options),
    tryOnce: (name, options) => this.tryAcquire(name, options),
    look: (name) => this.query(name, { maxWaiters: 0 }),
  }, this.#engine.clock);

  /**
   * Creates a manager of locks. Nothing is written before the first call.
   *
   * @param options Directory, deletion, polling, label, and the time limit of disposal.
   * @throws {TypeError} If an option has a wrong type, or if `sharedDir` comes without `dir`.
   * @throws {RangeError} If an option is out of range.
   * @throws {LockSetupError} If the runtime cannot lock files here: Node without koffi, Bun before 1.3,
   * and both on Windows.
   */
  constructor(options: FileLockOptions = {}) {
    const read = readOptions(options);
    this.#lifetime = new Lifetime(read);
    const fs = chooseFileSystem();
    this.#changes = new DirectoryChanges(fs, read.pollIntervalMs);
    this.#files = new LockFiles(fs, read);
  }

  /** Waits for the lock and acquires it. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    this.#check(name, options);
    this.#nesting.check(name, options, this.#lifetime.warnings);
    if (options.waitMs !== undefined) return await this.#bounded.acquire(name, options);
    return await this.#acquire(name, options);
  }

  async #acquire(name: string, options: AcquireOptions): Promise<Lease> {
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const notice = new WaitNotice(options.onWait);
    const turn = await this.#queue.enter(name, {
      signal,
      label: this.#labelOf(options),
      onWait: (info) => notice.give(info, this.#waiting.has(name)),
    });
    try {
      return this.#open(name, turn, await this.#wait(name, signal, notice, options), options);
    } catch (error) {
      turn.end();
      throw error;
    }
  }

  /** Acquires the lock if it is free now. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: TryAcquireOptions = {}): Promise<Lease | null> {
    this.#check(name, options);
    if (options.waitMs !== undefined) return await this.#bounded.tryAcquire(name, options);
    options.signal?.throwIfAborted();
    const signal = this.#lifetime.waitSignal(options.signal);
    const turn = this.#queue.tryEnter(name);
    if (turn === null) return null;
    try {
      const file = await this.#tryAcquireFile(name, signal, this.#labelOf(options));
      if (file !== null) return this.#open(name, turn, file, options);
    } catch (error) {
      turn.end();
      throw error;
    }
    turn.end();
    return null;
  }

  /**
   * Reads the holder of a lock, and its waiters in this instance. If another program has locked the
   * file, for instance `flock(1)`, the holder has neither label nor token. See
   * {@linkcode DistributedLock.query}.
   */
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    this.#check(name, {});
    const holder = await this.#holder(name);
    const waiting = this.#waiting.get(name);
    const nowMs = performance.now();
    const waiters = [...waiting ? [waiting] : [], ...this.#queue.waiters(name, maxWaiters)]
      .slice(0, maxWaiters)
      .map(({ sinceMs, label }) => ({ ...(label ? { label } : {}), waitedMs: nowMs - sinceMs }));
    const waiterCount = (waiting ? 1 : 0) + this.#queue.waiterCount(name);
    return { name, holders: holder ? [holder] : [], waiters, waiterCount };
  }

  /** Rejects waiters with an `AbortError` and releases all leases. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    const { disposeTimeoutMs } = this.#lifetime;
    const untilMs = performance.now() + disposeTimeoutMs;
    return this.#lifetime.end(async () => {
      await this.#engine.close(disposeTimeoutMs);
      this.#changes.close();
      await this.#files.close(untilMs - performance.now());
    });
  }

  #check(name: string, options: AcquireOptions): void {
    checkName(name);
    checkAcquireOptions(options);
    this.#lifetime.throwIfEnded();
  }

  /** Waits until the file is locked. Of all waiters of this instance only the first one does. */
  async #wait(
    name: string,
    signal: AbortSignal,
    notice: WaitNotice,
    options: AcquireOptions,
  ): Promise<HeldFile> {
    signal.throwIfAborted();
    const label = this.#labelOf(options);
    // Under contention the lock is rarely free, and to try would wake the waiters of other processes.
    const result = this.#changes.isWatched
      ? this.#files.tryLockAfterLook(name, label)
      : this.#files.tryLock(name, true, label);
    if (typeof result === "object") return result;
    const waiter = this.#changes.enter(this.#files.path(name));
    this.#waiting.set(name, { sinceMs: performance.now(), label });
    try {
      notice.give({ position: 1, waiters: 1 + this.#queue.waiterCount(name) });
      return await this.#waitForFile(name, waiter, { last: result, signal, label });
    } finally {
      this.#waiting.delete(name);
      this.#changes.leave(waiter);
    }
  }

  async #waitForFile(
    name: string,
    waiter: Waiter,
    { last, signal, label }: { last: NotLocked; signal: AbortSignal; label: string },
  ): Promise<HeldFile> {
    for (let seen = last;;) {
      await this.#changes.next(waiter, seen, signal);
      signal.throwIfAborted();
      const result = seen === "yield"
        ? this.#files.tryLock(name, false, label)
        : this.#files.tryLockAfterLook(name, label);
      if (typeof result === "object") return result;
      seen = result;
    }
  }

  /** Locks the file if it is free. A locked file that is not marked as held is tried again. */
  async #tryAcquireFile(
    name: string,
    signal: AbortSignal,
    label: string,
  ): Promise<HeldFile | null> {
    for (let tries = 0;; tries++) {
      const result = this.#files.tryLock(name, false, label);
      if (typeof result === "object") return result;
      if (tries === BRIEF_LOCK_TRIES || result === "held") return null;
      await pause(SYSTEM_CLOCK, 1, signal);
      signal.throwIfAborted();
    }
  }

  /** The holder; `null` if the lock is free. If the file stays locked without a mark, it is unknown. */
  async #holder(name: string): Promise<LockHolder | null> {
    for (let tries = 0;; tries++) {
      const seen = this.#files.observe(name);
      if (seen === "free") return null;
      if (seen !== "unmarked") {
        return { ...(seen.label ? { label: seen.label } : {}), fencingToken: seen.token };
      }
      if (tries === BRIEF_LOCK_TRIES) return {};
      await pause(SYSTEM_CLOCK, 1, this.#lifetime.ended);
    }
  }

  #labelOf({ label = this.#lifetime.label }: AcquireOptions): string {
    return label;
  }

  #open(name: string, turn: Turn, file: HeldFile, options: AcquireOptions): Lease {
    if (this.#lifetime.ended.aborted) {
      file.release();
      throw this.#lifetime.ended.reason;
    }
    return this.#engine.open({
      name,
      ownerId: makeOwnerId(this.#labelOf(options)),
      fencingToken: file.token,
      sent: instant(this.#engine.clock),
      ttlMs: Infinity,
      validMs: Infinity,
      autoRenew: false,
      maxHoldMs: options.maxHoldMs,
      watchEveryMs: WATCH_MS,
    }, actionsOf(file, turn))!; // open() returns null only for a grant whose TTL is over, and there is no TTL here
  }
}
