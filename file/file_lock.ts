/**
 * `FileLock`, from top to bottom: an acquire waits for its turn in this instance, then _tries_ to lock the file of
 * the lock by `flock`, and creates it if need be. If somebody else has locked it, the acquire waits: it watches the
 * directory, and looks again at once, then at each close of the file by a process that could write it, at its
 * removal, and rarely besides; without a watch, or while the file is `"unmarked"`, it polls. A file that it has
 * locked, but to which the path no longer leads, is closed, and the path opened again. Else the lock is granted: the
 * file is marked as held, with a new token. A release ends the turn, clears that mark, which counts only while the
 * file is locked, and unlocks the file. A second later, or at disposal, the file is deleted (not with `keepFiles`),
 * unless it is locked or wanted then: that leaves it to the next holder, or to a sweep. A lease is lost, and
 * released, once a check, each second and at a renewal, finds that its file is no longer at the path; a release
 * finds that, too.
 *
 * A try that fails marks the file as wanted, if it has a record, also that of a `tryAcquire()`; its close wakes all
 * waiters. So an acquire looks before it tries, except at first, unless its instance watches already: by a shared
 * lock on the file, opened for reading only. It tries all the same if an instance has got the lock twice in a row
 * and the mark is missing. Where the mark is there, an `acquire()` of an instance that got the lock eight times in a
 * row unlocks the file again (`"yield"`), pauses for 10 ms or, without a watch, the poll interval, and tries without
 * a look, so that others go first. The next grant clears the mark, also if it is that instance's own. A file that is
 * locked but not marked as held (`"unmarked"`) is locked for a moment or, after 20 such looks, by another program:
 * from then on its changes end no pause.
 *
 * A system call that fails rejects the call, also that of a waiter: there is no outage to wait for. But no lease is
 * lost by it, and no release rejects.
 *
 * Below this page: one file in `locked_file.ts`, the directory in `lock_directory.ts`, its watch and all pauses in
 * `directory_changes.ts`, tokens in `tokens.ts`, deletion and sweeps in `deletion.ts`. Turns in
 * `core/lease/local_queue.ts`, `waitMs` in `core/time/bounded_wait.ts`, the lease and disposal in `core/lease/`.
 *
 * @module
 */
import { callSignal } from "../core/time/abort_watch.ts";
import { ACQUIRE_OPTIONS, readMaxWaiters, readPrefix } from "../core/contract/call_options.ts";
import { BACKGROUND_CLOCK, instant, pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
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
  WaitInfo,
} from "../core/contract/distributed_lock.ts";
import { Calls, isPlain, isPlainTry } from "../core/lease/calls.ts";
import { LeaseEngine } from "../core/lease/lease_engine.ts";
import { Lifetime } from "../core/lease/lifetime.ts";
import { LocalQueue, type Turn } from "../core/lease/local_queue.ts";
import type { CallOptions } from "../core/lease/tracing.ts";
import { Nesting } from "../core/contract/nesting.ts";
import { requestOn } from "../core/contract/request.ts";
import { checkName, makeOwnerId } from "../core/contract/options.ts";
import { DirectoryChanges } from "./directory_changes.ts";
import { Cleaner } from "./deletion.ts";
import { LockDirectory, lockPath } from "./lock_directory.ts";
import type { LockedFile } from "./locked_file.ts";
import { type FileLockOptions, readOptions } from "./options.ts";
import { chooseFileSystem } from "./system/choose.ts";

/** The interval, in ms, at which a holder checks that its file is still at the path. */
const WATCH_MS = 1_000;
/** How often `tryAcquire()` and `query()` try again: an instance may have locked the file for a moment only. */
const BRIEF_LOCK_TRIES = 20;

/**
 * Named locks between the processes of one machine, without a server.
 *
 * The kernel frees its lock on a file (`flock`) when the process ends, however it ends. So there is no TTL, and
 * `remainingMs` is `Infinity`. Waiters of one instance are served first in, first out. A watch of the directory
 * notifies waiting instances when the lock is free, also if its holder was killed; without one (see `pollIntervalMs`)
 * they poll. Between instances there is no order, but one that was granted the lock eight times in a row lets others
 * that wait go first. So `onWait` and `query()` know the waiters of this instance only.
 *
 * If the lock file is removed or replaced, its holder loses the lease as `"stolen"` within a second. Files that
 * nobody uses are deleted (see `keepFiles`), except `holdfast.tokens`, which keeps tokens growing. A fencing token is
 * the wall clock in µs, or if that is behind, one more than the last token.
 *
 * Works with Deno 2.8 or later, with Node 22.12 or later if the package `koffi` is installed, and with Bun 1.3 or
 * later. Processes of all three exclude each other. Not on Windows.
 *
 * Deno needs `--allow-read` and `--allow-write` for the directory. The directories above are checked as far as
 * `--allow-read` permits. Local file systems only.
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
export class FileLock implements ListableLock {
  /** The guarantees and features of this strategy. */
  readonly capabilities: LockCapabilities = Object.freeze({
    fifo: "process",
    endsBy: "process-death",
    steal: false,
    attach: false,
    shared: false,
    limit: false,
    list: true,
  });
  readonly #nesting = new Nesting(this);
  /** Runs a callback under the lock. See {@linkcode DistributedLock.request}. */
  readonly request: RequestMethod = requestOn(this, {
    options: ACQUIRE_OPTIONS,
    nesting: this.#nesting,
  });
  /** No timer of a lease keeps the process alive: the kernel frees the lock when it ends. */
  readonly #engine = new LeaseEngine("file", SYSTEM_CLOCK, undefined, BACKGROUND_CLOCK);
  readonly #lifetime: Lifetime;
  readonly #queue = new LocalQueue();
  readonly #directory: LockDirectory;
  readonly #changes: DirectoryChanges;
  readonly #cleaner: Cleaner | null;
  readonly #calls: Calls;

  /**
   * Creates a manager of locks. Nothing is written before the first call.
   *
   * @param options Directory, deletion, polling, label, warnings, and the time limit of disposal.
   * @throws {TypeError} If an option has a wrong type, or if `sharedDir` comes without `dir`.
   * @throws {RangeError} If an option is out of range.
   * @throws {LockSetupError} If the runtime cannot lock files here: Deno before 2.8, Node without koffi,
   * Bun before 1.3, any on Windows.
   */
  constructor(options: FileLockOptions = {}) {
    const read = readOptions(options);
    this.#lifetime = new Lifetime(read);
    const fs = chooseFileSystem();
    this.#changes = new DirectoryChanges(fs, read.pollIntervalMs);
    this.#directory = new LockDirectory(fs, read);
    this.#cleaner = read.keepFiles ? null : new Cleaner(fs);
    const [lifetime, nesting] = [this.#lifetime, this.#nesting];
    this.#calls = new Calls({ strategy: "file", lock: this, lifetime, nesting }, {
      wait: this.#wait.bind(this),
      tryOnce: this.#tryOnce.bind(this),
      look: (name) => this.query(name, { maxWaiters: 0 }),
    });
  }

  /** Waits for the lock and acquires it. See {@linkcode DistributedLock.acquire}. */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const read = this.#calls.read(name, options);
    return isPlain(read) ? await this.#wait(name, read) : await this.#calls.acquire(name, read);
  }

  async #wait(name: string, options: CallOptions): Promise<Lease> {
    const call = callSignal(options.signal, this.#lifetime.ended);
    const { signal } = call;
    const { label = this.#lifetime.label, onWait } = options;
    const sinceMs = performance.now();
    let last: WaitInfo = {};
    const notify = onWait && ((info: WaitInfo) => {
      if (info.position === last.position && info.waiters === last.waiters) return;
      last = info;
      onWait(info);
    });
    let turn: Turn | null = null;
    try {
      turn = await this.#queue.enter(name, { signal, label, onWait: notify });
      signal.throwIfAborted();
      // A watch means that locks were contended lately.
      const looksFirst = this.#changes.isWatched;
      let seen = this.#directory.tryLock(name, label, { looksFirst, mayYield: true });
      if (typeof seen === "object") return this.#open(name, turn, seen, options);
      const waiter = this.#changes.enter(lockPath(this.#directory.path, name));
      this.#queue.waitAhead(name, { mode: "exclusive", sinceMs, label });
      try {
        notify?.({ position: 1, waiters: this.#queue.waiterCount(name) });
        for (let foreign = 0; typeof seen !== "object";) {
          foreign = seen === "unmarked" ? foreign + 1 : 0;
          await this.#changes.next(waiter, seen, signal, foreign > BRIEF_LOCK_TRIES);
          signal.throwIfAborted();
          const mayYield = seen !== "yield"; // not twice in a row
          seen = this.#directory.tryLock(name, label, { looksFirst: mayYield, mayYield });
        }
        return this.#open(name, turn, seen, options);
      } finally {
        this.#queue.waitAhead(name, null);
        this.#changes.leave(waiter);
      }
    } catch (error) {
      turn?.end();
      throw error;
    } finally {
      call.end();
    }
  }

  /** Acquires the lock if it is free now, or within `waitMs`. See {@linkcode DistributedLock.tryAcquire}. */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    const read = this.#calls.read(name, options);
    if (isPlainTry(read)) return await this.#tryOnce(name, read);
    return await this.#calls.tryAcquire(name, read);
  }

  async #tryOnce(name: string, options: CallOptions): Promise<Lease | null> {
    const { signal, onWait, label = this.#lifetime.label } = options;
    signal?.throwIfAborted();
    const turn = this.#queue.tryEnter(name);
    if (turn === null) {
      onWait?.({ waiters: this.#queue.waiterCount(name) });
      return null;
    }
    const how = { looksFirst: false, mayYield: false };
    let lease: Lease | null = null;
    try {
      for (let tries = 0; lease === null; tries++) {
        const seen = this.#directory.tryLock(name, label, how);
        if (typeof seen === "object") lease = this.#open(name, turn, seen, options);
        else if (tries === BRIEF_LOCK_TRIES || seen === "held") break;
        else {
          await pause(SYSTEM_CLOCK, 1);
          signal?.throwIfAborted();
          this.#lifetime.ended.throwIfAborted();
        }
      }
    } finally {
      if (lease === null) turn.end();
    }
    await null; // as with the other strategies, a signal that aborts in the same tick ends the call
    if (signal?.aborted) {
      await lease?.release();
      throw signal.reason;
    }
    return lease;
  }

  #open(
    name: string,
    turn: Turn,
    locked: LockedFile,
    options: CallOptions,
  ): Lease {
    return this.#engine.open({
      name,
      ownerId: makeOwnerId(options.label ?? this.#lifetime.label),
      fencingToken: locked.token,
      sent: instant(this.#engine.clock),
      ttlMs: Infinity,
      validMs: Infinity,
      autoRenew: false,
      maxHoldMs: options.maxHoldMs,
      call: options.call,
      watchEveryMs: WATCH_MS,
    }, {
      // deno-lint-ignore require-await -- a failing stat must reject: then the engine asks again
      renew: async () =>
        locked.isAtPath()
          ? { state: "held", validMs: Infinity }
          : { state: "lost", reason: "stolen" },
      release: () => {
        turn.end();
        const wasAtPath = locked.release();
        this.#cleaner?.release(locked.file);
        return wasAtPath ? { state: "released" } : { state: "gone", reason: "stolen" };
      },
    })!; // open() returns null only for a grant whose TTL is over, or may be, and there is no TTL here
  }

  /**
   * Reads the holder of a lock, and its waiters in this instance. If another program has locked the file, for
   * instance `flock(1)`, the holder has neither label nor token. See {@linkcode DistributedLock.query}.
   */
  async query(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    const maxWaiters = readMaxWaiters(options);
    checkName(name);
    this.#lifetime.throwIfEnded();
    const holder = await this.#holder(name);
    const holders = holder ? [holder] : [];
    const waiters = this.#queue.described(name, maxWaiters);
    const waiterCount = this.#queue.waiterCount(name);
    return { name, holders, holderCount: holders.length, waiters, waiterCount };
  }

  /**
   * Lists the names of all lock files, also of locks that are free and whose files are not deleted yet, or are
   * kept. It reads a part of each file. See {@linkcode ListableLock.list}.
   */
  list(options: ListOptions = {}): AsyncIterable<string> {
    const prefix = readPrefix(options);
    this.#lifetime.throwIfEnded();
    return this.#names(prefix);
  }

  async *#names(prefix: string): AsyncGenerator<string> {
    for await (const name of this.#directory.names(`${prefix}*`)) {
      this.#lifetime.ended.throwIfAborted();
      if (name.startsWith(prefix)) yield name;
    }
  }

  /** Rejects waiters with an `AbortError` and ends all leases, within `disposeTimeoutMs`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void> {
    const { disposeTimeoutMs } = this.#lifetime;
    const untilMs = performance.now() + disposeTimeoutMs;
    return this.#lifetime.end(async () => {
      await this.#engine.close(disposeTimeoutMs);
      this.#changes.close();
      await this.#cleaner?.close(untilMs - performance.now());
    });
  }

  /** `null` if the lock is free. Each try locks the file for a moment, shared. Its close wakes waiters. */
  async #holder(name: string): Promise<LockHolder | null> {
    for (let tries = 0;; tries++) {
      const seen = this.#directory.observe(name);
      if (seen === "free") return null;
      if (seen !== "unmarked") {
        const { label, token: fencingToken } = seen;
        return { mode: "exclusive", ...(label ? { label } : {}), fencingToken };
      }
      if (tries === BRIEF_LOCK_TRIES) return { mode: "exclusive" };
      await pause(SYSTEM_CLOCK, 1);
      this.#lifetime.ended.throwIfAborted();
    }
  }
}
