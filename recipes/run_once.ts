import type {
  AttachableAcquireOptions,
  DistributedLock,
  Lease,
} from "../core/contract/distributed_lock.ts";
import {
  callback,
  checkName,
  date,
  duration,
  MAX_DURATION_MS,
  MIN_TTL_MS,
  type OptionTable,
  type ReadOptions,
  readTable,
  required,
  ttl,
} from "../core/contract/options.ts";
import {
  BACKGROUND_CLOCK,
  elapsedMs,
  instant,
  pause,
  SYSTEM_CLOCK,
  TIMED_OUT,
  ttlLasting,
  within,
} from "../core/time/clock.ts";
import { LeaseLostError } from "../core/contract/errors.ts";
import { lossOf } from "../core/contract/request.ts";

/** Options of {@linkcode runOnce}. */
export interface RunOnceOptions {
  /**
   * How long, in ms, the lock stays held after the start, at least, also if the work is shorter: 10 ms to 24 days.
   * Make it longer than the starts of the processes can differ, by clocks, timers and event loops (the spread; with
   * `setInterval` a period more, as that counts from the start of each process). Without `tick`, make it shorter than
   * the period less the spread.
   */
  keepMs: number;
  /**
   * The time of the schedule that the work is due at. It becomes part of the lock's name, so that a long
   * run does not suppress the next tick. All processes must pass the same time.
   *
   * @default none: runs never overlap, and a tick that comes while one lasts does not run
   */
  tick?: Date | undefined;
  /**
   * The longest time, in ms, that the work may hold the lock, at least `keepMs`. After that its lease is lost,
   * so that work that hangs does not keep the lock, by its renewals, until the process ends.
   *
   * @default no limit
   */
  maxHoldMs?: number | undefined;
}

const RUN_ONCE_OPTIONS = {
  keepMs: required(ttl().check),
  tick: date(),
  maxHoldMs: duration(),
} satisfies OptionTable<RunOnceOptions>;

/** Reads the options; also for a decorator, which gets them long before the first run. */
export function readRunOnceOptions(
  where: string,
  options: RunOnceOptions,
): ReadOptions<RunOnceOptions, typeof RUN_ONCE_OPTIONS> {
  const read = readTable(where, options, RUN_ONCE_OPTIONS);
  const { keepMs: min, maxHoldMs = min } = read;
  duration({ min }).check("'maxHoldMs'", maxHoldMs); // or the lock would be free within `keepMs`
  return read;
}

/** For how long, in ms, a renewal asks, once the work lasts longer than the lock is kept for anyway. */
const LEASE_MS = 10_000;

/**
 * Runs work unless another process runs it, or has started it within the last `keepMs`. Tries once, and never waits.
 *
 * The lock stays held until `keepMs` after the start, also if the work is shorter or fails: a process whose clock or
 * timer is late must not run the tick again. On Redis that outlives the process and the disposal of `locks`; on
 * ZooKeeper, files and memory the lock is free when the process ends. It is held for longer while the work runs, and
 * renewed: if the process dies then, it is free within 10 s of the last renewal, or within `keepMs` if that is less.
 *
 * @param name The name of the lock. With `tick`, `@` and the time are added.
 * @param work The work. It gets the lease: pass on its `signal`, and the token to the resource that it writes.
 * @returns The value of the work; or `ran: false`, if another process has the lock, if the tick is more than
 * `keepMs` away by this process's clock, or if the service took longer than `keepMs` to answer.
 * @throws {unknown} The error of the work.
 * @throws {LeaseLostError} If the lease was lost before the work began; or the work succeeded, but its lease was lost
 * meanwhile, or not proven within 10 s.
 * @throws {LockUnavailableError} In an outage of the service. The work did not run.
 * @throws {LockSetupError} If the service refuses, and will refuse again.
 * @throws {TypeError|RangeError} If an argument is bad.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { runOnce } from "@holdfast/lock/recipes";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const tick = new Date(Math.round(Date.now() / 60_000) * 60_000);
 * const report = () => runOnce(locks, "report", { keepMs: 30_000, tick }, () => "sent");
 * assertEquals(await report(), { ran: true, value: "sent" });
 * assertEquals(await report(), { ran: false }); // as in every other process
 * ```
 */
export async function runOnce<T>(
  locks: DistributedLock,
  name: string,
  options: RunOnceOptions,
  work: (lease: Lease) => T | Promise<T>,
): Promise<{ readonly ran: true; readonly value: T } | { readonly ran: false }> {
  checkName(name);
  const { keepMs, tick, maxHoldMs } = readRunOnceOptions("runOnce()", options);
  callback().check("the work", work);
  const called = instant(SYSTEM_CLOCK);
  const untilMs = called.nowMs + keepMs;
  // Then the lock of the process that has run the work may be free again.
  const isTooLate = () =>
    elapsedMs(SYSTEM_CLOCK, called) >= keepMs ||
    (tick !== undefined && Math.abs(SYSTEM_CLOCK.wall() - tick.getTime()) > keepMs);
  if (isTooLate()) return { ran: false };
  const isKept = locks.capabilities.attach;
  const terms: AttachableAcquireOptions = isKept
    ? {
      ttlMs: Math.min(ttlLasting(keepMs), MAX_DURATION_MS),
      outlivesDisposal: true,
      autoRenew: false,
      maxHoldMs,
    }
    : { maxHoldMs };
  const lease = await locks.tryAcquire(tick ? `${name}@${tick.toISOString()}` : name, terms);
  if (lease === null) return { ran: false };
  const provenForMs = isKept ? MIN_TTL_MS : undefined;
  // Lost just after the grant; or unproven, if `locks` is a wrapper that awaits something after it.
  const lost = lease.remainingMs === 0 ? await lossOf(lease, provenForMs) : null;
  if (lost !== null || isTooLate()) {
    await lease[Symbol.asyncDispose]();
    if (lost !== null) throw lost;
    return { ran: false };
  }
  const ended = new AbortController();
  if (isKept) renewWhile(lease, keepMs, untilMs, ended.signal);
  try {
    const value = await work(lease);
    const loss = await within(SYSTEM_CLOCK, lossOf(lease, provenForMs), LEASE_MS);
    if (loss === TIMED_OUT) throw new LeaseLostError(lease.name, "unreachable");
    if (loss !== null) throw loss;
    return { ran: true, value };
  } finally {
    ended.abort();
    await releaseAt(lease, untilMs);
  }
}

/**
 * Renews the lease until `ended` aborts. Within `keepMs` that only proves it: the server never shortens a
 * lease, and an automatic renewal would ask for all of `keepMs` again.
 */
async function renewWhile(
  lease: Lease,
  keepMs: number,
  untilMs: number,
  ended: AbortSignal,
): Promise<void> {
  const everyMs = Math.min(keepMs, LEASE_MS) / 3;
  for (;;) {
    await pause(SYSTEM_CLOCK, everyMs, ended);
    if (ended.aborted) return;
    const leftMs = untilMs - SYSTEM_CLOCK.now();
    const isEnough = leftMs > 1.5 * everyMs;
    try {
      await lease.renew(Math.max(MIN_TTL_MS, Math.ceil(isEnough ? leftMs : 3 * everyMs)));
    } catch {
      return; // lost: its signal has aborted
    }
  }
}

/** Releases the lock at a time, or at the loss of the lease; resolves at once if that is later. */
async function releaseAt(lease: Lease, untilMs: number): Promise<void> {
  const restMs = untilMs - SYSTEM_CLOCK.now();
  if (restMs <= 0 || lease.signal.aborted) return await lease[Symbol.asyncDispose]();
  // Not awaited, and with a timer that does not keep the process alive. On Node it may fire a fraction of a ms
  // early: then it waits again.
  pause(BACKGROUND_CLOCK, restMs, lease.signal).then(() => releaseAt(lease, untilMs));
}
