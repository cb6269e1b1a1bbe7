import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { LockError, LockSetupError } from "../core/contract/errors.ts";
import { callback, type OptionTable, readTable, signal } from "../core/contract/options.ts";
import { promiseTry } from "../core/contract/promise_try.ts";
import { lossOf, stemsFrom } from "../core/contract/request.ts";
import { CallSignal } from "../core/time/abort_watch.ts";
import { abortable, pause, SYSTEM_CLOCK } from "../core/time/clock.ts";

/** A change of what this process is, as the option `onChange` of {@linkcode lead} gets it. */
export type LeaderChange =
  | {
    /** This process waits for its turn. */
    readonly state: "waiting";
  }
  | {
    /** This process leads: its work starts now. */
    readonly state: "leading";
    /** The lease under which it leads. */
    readonly lease: Lease;
  }
  | {
    /** This process no longer leads. Its work may still run, if the lease was lost. */
    readonly state: "lost";
    /** The `LeaseLostError`, or else the work's error, or else `signal.reason`; `undefined` if the work returned. */
    readonly reason: unknown;
  };

/** Options of {@linkcode lead}. */
export interface LeadOptions {
  /**
   * Ends it: the wait at once, the work by its own signal.
   *
   * @default none: it ends when the lock manager is disposed
   */
  signal?: AbortSignal | undefined;
  /**
   * Gets each change, in the order leading, lost, waiting, leading, …; first waiting, if another process leads. Never
   * the same state twice in a row. It is called at once at the loss of a lease, else before the lock is released. Its
   * own errors are ignored; an error of the work after a loss is a warning on the console: the loss was told already.
   *
   * @default a warning on the console with each error of the work
   */
  onChange?: ((change: LeaderChange) => void) | undefined;
}

const LEAD_OPTIONS = {
  signal: signal(),
  onChange: callback(),
} satisfies OptionTable<LeadOptions>;

/** The first pause in ms, and the longest one: each is up to twice as long as the one before. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;

/**
 * Waits for a lock and runs work under it, again and again, until `signal` aborts: of all processes that do so, one
 * leads. It waits for its turn again after a loss of the lease, and after the work has returned or thrown.
 *
 * Each consecutive error of the work, and each return within half a second, is followed by a longer pause, up to 30 s.
 * The lock is released, and new work starts, only when the work has ended: so it must end when its signal aborts.
 *
 * @param work Leads. It gets the lease, and a signal that aborts at its loss and with `signal`.
 * @returns When `signal` has aborted, and the work has ended.
 * @throws {LockSetupError} If the service refuses, and will refuse again.
 * @throws {DOMException} `AbortError` or `InvalidStateError` if the lock manager is disposed.
 * @throws {TypeError|RangeError} If an argument is bad.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { lead } from "@holdfast/lock/recipes";
 * import { assertEquals } from "@std/assert";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const stop = new AbortController();
 * const states: string[] = [];
 * await lead(locks, "billing", (lease) => {
 *   lease.throwIfLost(); // before each effect, and pass the token to the resource
 *   stop.abort(); // at SIGTERM, usually
 * }, { signal: stop.signal, onChange: ({ state }) => states.push(state) });
 * assertEquals(states, ["leading", "lost"]);
 * ```
 */
export async function lead(
  locks: DistributedLock,
  name: string,
  work: (lease: Lease, signal: AbortSignal) => unknown,
  options: LeadOptions = {},
): Promise<void> {
  const { signal: stop = new AbortController().signal, onChange } = readTable(
    "lead()",
    options,
    LEAD_OPTIONS,
  );
  callback().check("the work", work);
  let state: LeaderChange["state"] | null = null;
  const tell = (change: LeaderChange) => {
    if (state === change.state) return;
    state = change.state;
    promiseTry(() => onChange?.(change)).catch(() => {});
  };
  const onWait = () => tell({ state: "waiting" });
  let failures = 0;
  while (!stop.aborted) {
    if (state !== null) onWait();
    try {
      const lease = await locks.acquire(name, { signal: stop, onWait });
      // Lost just after the grant; or unproven, if `locks` is a wrapper that awaits something after it.
      const loss = lease.remainingMs === 0
        ? await abortable(lossOf(lease), stop).catch(() => stop.reason)
        : null;
      if (loss !== null || stop.aborted) {
        await lease[Symbol.asyncDispose]();
        throw loss; // of which nobody hears after an abort
      }
      const startMs = SYSTEM_CLOCK.now();
      const isFailed = await term(lease, work, stop, tell, onChange === undefined);
      const ledMs = SYSTEM_CLOCK.now() - startMs;
      if (ledMs >= MAX_PAUSE_MS) failures = 0;
      failures = isFailed || (ledMs < FIRST_PAUSE_MS && !lease.signal.aborted) ? failures + 1 : 0;
    } catch (error) {
      if (stop.aborted) return;
      if (!(error instanceof LockError) || error instanceof LockSetupError) throw error;
      failures = 1; // an outage, which took its time already, or a lease that was lost before the work began
    }
    const pauseMs = failures === 0
      ? 0
      : Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), MAX_PAUSE_MS);
    await pause(SYSTEM_CLOCK, pauseMs * (0.5 + Math.random() / 2), stop);
  }
}

/** Leads once. Never rejects; resolves with whether the work has failed, other than by the end of its signal. */
async function term(
  lease: Lease,
  work: (lease: Lease, signal: AbortSignal) => unknown,
  stop: AbortSignal,
  tell: (change: LeaderChange) => void,
  isUnheard: boolean,
): Promise<boolean> {
  const lost = lease.signal;
  const onLoss = () => tell({ state: "lost", reason: lost.reason });
  const end = new CallSignal(lost, stop);
  let error: unknown;
  tell({ state: "leading", lease });
  lost.addEventListener("abort", onLoss);
  try {
    await work(lease, end.signal);
  } catch (thrown) {
    error = thrown;
  }
  const isLost = lease.signal.aborted; // reads the clock: a timer may not have run yet
  const isAborted = end.signal.aborted && isAbortError(error);
  end.end();
  lost.removeEventListener("abort", onLoss);
  const isFailed = error !== undefined && !isAborted && !stemsFrom(error, lost.reason) &&
    !stemsFrom(error, stop.reason);
  if (isFailed && (isUnheard || isLost)) {
    // deno-lint-ignore no-console -- an error that nobody gets would be lost
    console.warn("The leader's work has ended:", error);
  }
  const reason = isFailed ? error : stop.reason;
  tell({ state: "lost", reason: isLost ? lost.reason : reason });
  await lease[Symbol.asyncDispose]();
  return isFailed;
}

/** Whether a library has stopped what the signal aborts, and says so by an error of its own. */
function isAbortError(error: unknown): boolean {
  return error instanceof Error && /^(?:AbortError|CanceledError)$/.test(error.name);
}
