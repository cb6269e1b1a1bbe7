import {
  ACQUIRE_OPTIONS,
  ATTACHABLE_OPTIONS,
  readAcquireOptions,
  REQUEST_OPTIONS,
} from "../contract/call_options.ts";
import type {
  AcquireOptions,
  AttachableAcquireOptions,
  AttachableLock,
  AttachableRequestOptions,
  DistributedLock,
  Lease,
  LockMode,
  RequestOptions,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { LockTimeoutError } from "../contract/errors.ts";
import {
  checkName,
  describe,
  notSupported,
  type OptionTable,
  readTable,
  required,
} from "../contract/options.ts";
import { runUnder } from "../contract/request.ts";
import { ManagedLease } from "../lease/lease.ts";
import { CallSignal } from "../time/abort_watch.ts";
import { ANSWER_WITHIN_MS } from "../time/bounded_wait.ts";
import { abortable, BACKGROUND_CLOCK, pause, settledWithin, SYSTEM_CLOCK } from "../time/clock.ts";
import { type LeaseSet, leaseSetOf } from "./lease_set.ts";
import { LimitedLease } from "./limited_lease.ts";

/** Most names of one set: each is held while the next ones are waited for. */
const MAX_NAMES = 64;

/** A name of a set, with a mode and a limit of its own. */
export interface LockEntry {
  /** The name of the lock. */
  readonly name: string;
  /**
   * The mode of this lock.
   *
   * @default the `mode` of the options
   */
  readonly mode?: LockMode | undefined;
  /**
   * How many shared holders this lock may have at most.
   *
   * @default the `limit` of the options, unless the entry has a `mode`
   */
  readonly limit?: number | undefined;
}

/**
 * Options of {@linkcode acquireAll}, {@linkcode tryAcquireAll} and {@linkcode requestAll}: those of a single call
 * without `steal`. They apply to each lock, except that `waitMs` and `signal` end the wait for all of them, that
 * `maxHoldMs` counts from the last grant, and that with `autoRenew: false` the first ones are renewed until then.
 */
export type AcquireAllOptions<Options extends AcquireOptions = AcquireOptions> =
  & Omit<Options, "onWait" | "steal">
  & {
    /** As in `acquire()`. Gets the name of the lock first. */
    onWait?: ((name: string, info: WaitInfo) => void) | undefined;
  };

/**
 * Waits for several locks and acquires all of them, one after the other in the order of the code units of
 * their names, whatever the order of `entries`. Calls that do so never deadlock each other. If it rejects,
 * what it had acquired is released; after an abort, and in an outage, these releases may still be under way.
 * It deadlocks with code that acquires further locks while it holds some, or locks of another manager.
 *
 * @example Usage
 * ```ts
 * import { acquireAll, MemoryLock } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const entries = ["account:7", { name: "rates", mode: "shared" }] as const;
 * await using set = await acquireAll(locks, entries, { waitMs: 5_000 });
 * assertEquals(set.leases.get("rates")?.mode, "shared");
 * ```
 *
 * @param entries The names, 1 to 64, each once.
 * @throws {TypeError|RangeError} If an argument is bad, also if a name is there twice.
 * @throws {LockTimeoutError} If `waitMs` is over and the service answers.
 * @throws {LeaseLostError} If a lease is lost while a later lock is waited for.
 * @throws {unknown} `signal.reason` if the signal aborts first, and what `acquire()` rejects with.
 */
export function acquireAll(
  locks: AttachableLock,
  entries: readonly (string | LockEntry)[],
  options?: AcquireAllOptions<AttachableAcquireOptions>,
): Promise<LeaseSet>;
/** The same for a strategy that cannot attach. */
export function acquireAll(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options?: AcquireAllOptions,
): Promise<LeaseSet>;
export async function acquireAll(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions = {},
): Promise<LeaseSet> {
  return (await acquireInOrder(
    locks,
    readCall("acquireAll()", locks, entries, options),
    "acquire",
  ))!;
}

/**
 * Acquires several locks if all are free now, or become free within `waitMs`, which bounds the wait for all
 * together. It acquires them one after the other, in the order of {@linkcode acquireAll}.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock, tryAcquireAll } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * await using _lease = await locks.acquire("b");
 * assertEquals(await tryAcquireAll(locks, ["a", "b"]), null);
 * assertEquals((await locks.query("a")).holders, []);
 * ```
 *
 * @param entries The names, 1 to 64, each once.
 * @returns The leases, or `null` if somebody else holds one of the locks. Then the others are
 * released; in an outage the releases may still be under way.
 * @throws {TypeError|RangeError} If an argument is bad, also if a name is there twice.
 * @throws {LeaseLostError} If a lease is lost while a later lock is acquired.
 * @throws {unknown} `signal.reason` if the signal aborts first, and what `tryAcquire()` rejects with.
 */
export function tryAcquireAll(
  locks: AttachableLock,
  entries: readonly (string | LockEntry)[],
  options?: AcquireAllOptions<AttachableAcquireOptions>,
): Promise<LeaseSet | null>;
/** The same for a strategy that cannot attach. */
export function tryAcquireAll(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options?: AcquireAllOptions,
): Promise<LeaseSet | null>;
export async function tryAcquireAll(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions = {},
): Promise<LeaseSet | null> {
  const call = readCall("tryAcquireAll()", locks, entries, options);
  return await acquireInOrder(locks, call, "tryAcquire");
}

/**
 * Waits for several locks as {@linkcode acquireAll} does, runs a callback under all of them, and releases them
 * when it has settled. With `ifAvailable` the callback gets `null` if one of the locks is held.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock, requestAll } from "@holdfast/lock";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock();
 * const moved = await requestAll(locks, ["account:7", "account:3"], (set) => {
 *   set.throwIfLost();
 *   return "moved";
 * });
 * assertEquals(moved, "moved");
 * ```
 *
 * @param entries The names, 1 to 64, each once.
 * @throws {unknown} The error of the callback, and what {@linkcode acquireAll} rejects with.
 * @throws {LeaseLostError} If the callback succeeded, but a lease was lost before it had settled.
 * @throws {DOMException} `NotSupportedError` for `steal`.
 */
export function requestAll<T>(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  callback: (set: LeaseSet) => T | Promise<T>,
): Promise<T>;
/** The same with options, for a strategy that can attach. */
export function requestAll<T>(
  locks: AttachableLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions<AttachableRequestOptions> & { ifAvailable?: false | undefined },
  callback: (set: LeaseSet) => T | Promise<T>,
): Promise<T>;
/** The same with options, for any strategy. */
export function requestAll<T>(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions<RequestOptions> & { ifAvailable?: false | undefined },
  callback: (set: LeaseSet) => T | Promise<T>,
): Promise<T>;
/** The same with `ifAvailable: true`, for a strategy that can attach. */
export function requestAll<T>(
  locks: AttachableLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions<AttachableRequestOptions>,
  callback: (set: LeaseSet | null) => T | Promise<T>,
): Promise<T>;
/** The same with `ifAvailable: true`, for any strategy. */
export function requestAll<T>(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions<RequestOptions>,
  callback: (set: LeaseSet | null) => T | Promise<T>,
): Promise<T>;
export async function requestAll<T>(
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  ...args: readonly unknown[]
): Promise<T> {
  const options = (args.length === 1 ? {} : args[0] ?? {}) as AcquireAllOptions;
  const callback = args.at(-1) as (set: LeaseSet | null) => T | Promise<T>;
  if (typeof callback !== "function") {
    throw new TypeError(
      `Cannot request locks: the callback must be a function, but it is ${describe(callback)}`,
    );
  }
  const call = readCall("requestAll()", locks, entries, options, REQUEST_SET_OPTIONS);
  if ((call.read as RequestOptions).steal) {
    throw notSupported("Cannot steal several locks: steal them one by one, by request()");
  }
  const set = await acquireInOrder(locks, call, call.read.ifAvailable ? "tryAcquire" : "acquire");
  if (set === null) return await callback(null);
  return await runUnder(set, () => {
    set.signal.throwIfAborted(); // lost or disposed before the callback starts: then it never does
    return callback(set);
  });
}

// The arguments: all are checked before the first lock is asked for.

const ENTRY_OPTIONS: OptionTable<LockEntry> = {
  name: required((_, value) => checkName(value)),
  mode: ACQUIRE_OPTIONS.mode,
  limit: ACQUIRE_OPTIONS.limit,
};

// Of a lock without and with `attach`. Its type differs in `onWait` only, whose rule is the same.
const SET_OPTIONS = [ACQUIRE_OPTIONS, ATTACHABLE_OPTIONS] as const;
const REQUEST_SET_OPTIONS = [
  { ...ACQUIRE_OPTIONS, ...REQUEST_OPTIONS },
  { ...ATTACHABLE_OPTIONS, ...REQUEST_OPTIONS },
] as const;

/** Reads the options, and the steps in the order of their names. */
function readCall(
  where: string,
  locks: DistributedLock,
  entries: readonly (string | LockEntry)[],
  options: AcquireAllOptions,
  tables: readonly [object, object] = SET_OPTIONS,
) {
  if (!Array.isArray(entries)) {
    throw new TypeError(
      `Cannot use the entries: they must be an array, but they are ${describe(entries)}`,
    );
  }
  if (entries.length < 1 || entries.length > MAX_NAMES) {
    throw new RangeError(
      `Cannot use the entries: there must be 1 to ${MAX_NAMES}, but there are ${entries.length}`,
    );
  }
  const { attach } = locks.capabilities;
  const read: AcquireAllOptions<AttachableRequestOptions> = readTable(
    where,
    options as object,
    tables[attach ? 1 : 0],
  );
  const { ifAvailable: _, ...each } = read as AttachableRequestOptions;
  delete each.steal;
  const steps = entries.map((entry) => {
    const { name, ...own } = typeof entry === "string" ? { name: entry } : entryOf(entry);
    checkName(name);
    const terms = { ...each, ...own };
    return { name, options: readAcquireOptions(terms, locks.capabilities) };
  });
  steps.sort((a, b) => a.name < b.name ? -1 : 1);
  for (const [i, { name }] of steps.entries()) {
    if (name !== steps[i + 1]?.name) continue;
    throw new TypeError(
      `Cannot acquire lock ${JSON.stringify(name)} twice in a set: name each lock once`,
    );
  }
  return { read, steps };
}

/** An entry with a mode or a limit takes neither from the options. */
function entryOf(entry: LockEntry): LockEntry {
  if (typeof entry !== "object" || entry === null) {
    throw new TypeError(
      `Cannot use an entry: it must be a name or { name, mode, limit }, but it is ${
        describe(entry)
      }`,
    );
  }
  const { name, mode, limit } = readTable("an entry", entry, ENTRY_OPTIONS) as LockEntry;
  return mode === undefined && limit === undefined ? { name } : { name, mode, limit };
}

// The locks, one after the other.

/** Acquires all locks, or releases what it has. Resolves with `null` if a try is refused. */
async function acquireInOrder(
  locks: DistributedLock,
  { read, steps }: ReturnType<typeof readCall>,
  method: "acquire" | "tryAcquire",
): Promise<LeaseSet | null> {
  const { signal, waitMs, maxHoldMs, onWait } = read;
  const startMs = SYSTEM_CLOCK.now();
  const held: Lease[] = [];
  try {
    for (const { name, options } of steps) {
      const leftMs = waitMs === undefined
        ? undefined
        : Math.min(waitMs, Math.max(0, Math.ceil(startMs + waitMs - SYSTEM_CLOCK.now())));
      const call = new CallSignal(signal, ...held.map((lease) => lease.signal));
      const waited = new AbortController();
      if (options.autoRenew === false && held.length > 0) keepRenewed(held, waited.signal);
      let lease: Lease | null;
      try {
        lease = await locks[method](name, {
          ...options,
          waitMs: leftMs,
          maxHoldMs: undefined,
          signal: call.signal,
          onWait: onWait && ((info) => onWait(name, info)),
        });
      } finally {
        call.end();
        waited.abort();
      }
      if (lease === null) {
        const refusal = await releaseAll(held, signal);
        if (refusal !== undefined) throw refusal; // with null, all are released, or will be
        return null;
      }
      held.push(lease);
    }
    await renewOlder(held, read);
    // A lease may have been lost in the moment of the last grant, or a suspension may have followed.
    for (const lease of held) lease.throwIfLost();
  } catch (error) {
    const refusal = await releaseAll(held, signal);
    if (!(error instanceof LockTimeoutError)) throw error;
    if (refusal !== undefined) throw refusal; // one of the locks stays held
    const waitedMs = Math.round(SYSTEM_CLOCK.now() - startMs);
    throw new LockTimeoutError(error.lockName!, waitedMs, error.holderLabel, { cause: error });
  }
  return leaseSetOf(maxHoldMs === undefined ? held : limited(locks, held, maxHoldMs));
}

/** Leases that are held for `maxHoldMs` more at most. */
function limited(
  { capabilities }: DistributedLock,
  held: readonly Lease[],
  maxHoldMs: number,
): readonly Lease[] {
  if (ManagedLease.limit(held, maxHoldMs)) return held;
  // Of a user's own lock. As in those of the package, the timer keeps no process alive whose end frees the locks.
  const clock = capabilities.endsBy === "process-death" ? BACKGROUND_CLOCK : SYSTEM_CLOCK;
  const endMs = clock.now() + maxHoldMs;
  return held.map((lease) => new LimitedLease(lease, endMs, clock));
}

/** Renews leases that are not renewed automatically: the next one may be waited for longer than their TTL. */
async function keepRenewed(leases: readonly Lease[], waited: AbortSignal): Promise<void> {
  const held = [...leases];
  try {
    for (;;) {
      await pause(SYSTEM_CLOCK, Math.min(...held.map((lease) => lease.remainingMs)) / 2, waited);
      if (waited.aborted) return;
      await Promise.all(held.map((lease) => lease.renew()));
    }
  } catch {
    // Its signal has ended the call.
  }
}

/**
 * Renews the leases that a suspension left unproven, as they may be lost; with `autoRenew: false` also those that are
 * older than the last one.
 */
async function renewOlder(
  held: readonly Lease[],
  { autoRenew, signal }: AcquireAllOptions,
): Promise<void> {
  // A tenth may pass: what is granted at once costs no more round trips.
  const leastMs = autoRenew === false
    ? 0.9 * Math.max(...held.map((lease) => lease.remainingMs))
    : 0;
  const older = held.filter(({ remainingMs }) => remainingMs === 0 || remainingMs < leastMs);
  if (older.length === 0) return;
  const renewed = Promise.all(older.map((lease) => lease.renew()));
  await (signal === undefined ? renewed : abortable(renewed, signal));
}

/**
 * Releases what a call that gets nothing has acquired. It waits for the answers, but not after an abort, and not long
 * in an outage: the releases go on in the background. Returns the first refusal by then, if there is one.
 */
async function releaseAll(
  held: readonly Lease[],
  signal: AbortSignal | undefined,
): Promise<unknown> {
  let refusal: unknown;
  const released = held.map((lease) => lease.release().catch((error) => void (refusal ??= error)));
  if (signal?.aborted) return undefined;
  await settledWithin(SYSTEM_CLOCK, Promise.all(released), ANSWER_WITHIN_MS);
  return refusal;
}
