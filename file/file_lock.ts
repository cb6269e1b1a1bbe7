/**
 * `FileLock`: its calls, polling and leases. How a single file is locked is in `lock_file.ts`.
 *
 * @module
 */
import { capabilitiesOf } from "../core/capabilities.ts";
import { instant, pause, SYSTEM_CLOCK } from "../core/clock.ts";
import type {
  AcquireOptions,
  DistributedLock,
  Lease,
  LockCapabilities,
  LockSnapshot,
  RequestMethod,
  TryAcquireOptions,
} from "../core/distributed_lock.ts";
import { LeaseEngine } from "../core/lease_engine.ts";
import { Lifetime, type StrategyOptions } from "../core/lifetime.ts";
import { makeOwnerId } from "../core/owner_id.ts";
import { requestOn } from "../core/request.ts";
import { LocalQueue, type LocalWaiter, type Turn } from "../core/local_queue.ts";
import {
  checkAcquireOptions,
  checkDuration,
  checkName,
  checkString,
  describeType,
} from "../core/validate.ts";
import { LockDirectory, lockPath } from "./directory.ts";
import { codeOf, toLockError } from "./faults.ts";
import {
  type HeldFile,
  isHeld,
  type LockerId,
  type LockPlace,
  peek,
  tryLock,
} from "./lock_file.ts";
import { WATCH_CLOCK } from "./watch_clock.ts";

/** Options of {@linkcode FileLock}. */
export interface FileLockOptions extends StrategyOptions {
  /**
   * The directory of the lock files, created if it does not exist. Processes exclude each other
   * only if they use the same directory, on a local file system (not NFS or SMB). A relative path
   * counts from the working directory in which the `FileLock` is created.
   *
   * The default is the user's own: `holdfast` in `$XDG_RUNTIME_DIR` if that belongs to the user, else
   * `holdfast-<user id>` in the temporary directory. It needs `--allow-env` and `--allow-sys=uid`. It
   * may differ between a shell, a service and a cron job, so set `dir` when these share a lock.
   *
   * A user that may replace a lock file can break its lock. So a directory is refused with a
   * `LockSetupError` if it is a link, if neither this user nor root owns it, if others may write to
   * it, or if others may replace it because they may write to a directory above it (one with the
   * sticky bit, as `/tmp`, is allowed).
   */
  dir?: string;
  /**
   * Whether other users may write to `dir`, which is then not checked. All users who may write there
   * can lock, and each can break the locks of the others, but none can make another one's process
   * write to a file elsewhere. New files get the permissions that the directory has for reading and
   * writing, for instance 660 in a directory with mode 2770. Needs `dir`.
   *
   * @default {false}
   */
  sharedDir?: boolean;
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
 * Needs `--allow-read` and `--allow-write` for the directory, and `--allow-sys=uid` unless root owns
 * the directory or it is shared. The directories above are checked as far as `--allow-read` permits.
 * Local file systems only.
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
  readonly #engine = new LeaseEngine(WATCH_CLOCK);
  readonly #lifetime: Lifetime;
  readonly #queue = new LocalQueue();
  readonly #locker: LockerId;
  /** The waiter that polls for each name. */
  readonly #polling = new Map<string, LocalWaiter>();
  readonly #directory: LockDirectory;
  readonly #pollIntervalMs: number;

  /**
   * Creates a manager of locks. Nothing is written before the first call.
   *
   * @param options Directory, polling, label, and the time limit of disposal.
   * @throws {TypeError} If an option has a wrong type.
   * @throws {RangeError} If an option is out of range.
   */
  constructor(options: FileLockOptions = {}) {
    const { dir, sharedDir = false, pollIntervalMs = DEFAULT_POLL_INTERVAL_MS } = options;
    if (dir !== undefined) checkString("dir", dir);
    checkSharedDir(sharedDir, dir);
    checkDuration("pollIntervalMs", pollIntervalMs);
    this.#lifetime = new Lifetime(options);
    this.#directory = new LockDirectory(dir, sharedDir);
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
    const [record, held] = this.#run(name, ({ path }) => {
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
        await pause(SYSTEM_CLOCK, this.#pollMs(), signal);
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
      const record = this.#run(name, ({ path }) => peek(path));
      if (tries === BRIEF_LOCK_TRIES || record?.held) return null;
      await pause(SYSTEM_CLOCK, 1, signal);
      signal.throwIfAborted();
    }
  }

  #tryLock(name: string, mayYield: boolean): ReturnType<typeof tryLock> {
    return this.#run(name, (place) => tryLock(place, this.#locker, mayYield));
  }

  /** The time in ms until the next poll. Jitter keeps two processes from polling in step. */
  #pollMs(): number {
    return this.#pollIntervalMs * (0.75 + Math.random() / 2);
  }

  /**
   * Runs an action on the file of a lock. If the directory was removed, creates it and tries once
   * more.
   *
   * @throws {LockSetupError} If only a change of the set-up helps.
   * @throws {LockUnavailableError} If the file system refuses for now.
   */
  #run<T>(name: string, action: (place: LockPlace) => T, isRetry = false): T {
    let path: string | undefined;
    try {
      const directory = this.#directory.open();
      path = lockPath(directory.path, name);
      return action({ path, name, fileMode: directory.fileMode });
    } catch (cause) {
      this.#directory.forget();
      if (!isRetry && codeOf(cause) === "ENOENT") return this.#run(name, action, true);
      throw toLockError(cause, name, path);
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

function checkSharedDir(sharedDir: unknown, dir: string | undefined): void {
  if (typeof sharedDir !== "boolean") {
    throw new TypeError(
      `Cannot use 'sharedDir': it must be a boolean, but it is ${describeType(sharedDir)}`,
    );
  }
  if (sharedDir && dir === undefined) {
    throw new TypeError("Cannot use 'sharedDir' without 'dir': each user has another default");
  }
}

function isInPlace(file: HeldFile): boolean {
  try {
    return file.isInPlace();
  } catch {
    return false;
  }
}
