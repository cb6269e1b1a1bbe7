/**
 * Queues within one process, first in, first out. Nothing here knows other processes or leases.
 *
 * @module
 */
import type { WaitInfo } from "../contract/distributed_lock.ts";
import { unwatchAbort, watchAbort } from "../time/abort_watch.ts";
import { LinkedSet } from "./linked_set.ts";
import { type ReportedWaiter, WaitReports } from "./wait_reports.ts";

/** A local waiter, as `query()` reports it. */
export interface LocalWaiter {
  /** When it started to wait, in monotonic ms. */
  readonly sinceMs: number;
  /** The label of its call, if it has one. */
  readonly label?: string | undefined;
}

interface QueuedWaiter extends LocalWaiter, ReportedWaiter {
  grant(turn: Turn): void;
}

/** The queue of one name: the current turn and the waiters behind it. */
interface Line {
  turn: Turn | null;
  /** In the order of arrival. */
  readonly waiters: LinkedSet<QueuedWaiter>;
  /** How many wait for something else, with a turn already: they are ahead of the waiters. */
  ahead: number;
  /** `null` until a waiter has an `onWait`. */
  reports: WaitReports | null;
}

/** Exclusive use of a name within its queue. */
export interface Turn {
  /** Whether this is still the turn of its name: false after its end, or after a seizure. */
  readonly isCurrent: boolean;
  /**
   * Ends the turn and grants one to the next waiter. Does nothing, and returns false, if not
   * current.
   */
  end(): boolean;
}

/** A queue per name. A name that has no turn and no waiters uses no memory. */
export class LocalQueue {
  readonly #lines = new Map<string, Line>();

  /** Returns a turn, or `null` if another caller has it. */
  tryEnter(name: string): Turn | null {
    if (this.#lines.has(name)) return null;
    const line: Line = { turn: null, waiters: new LinkedSet(), ahead: 0, reports: null };
    this.#lines.set(name, line);
    return this.#grant(name, line);
  }

  /**
   * Waits for a turn. `onWait` is called if the caller has to wait, and when its place has changed; then
   * `onTurn`, in the step that grants the turn: only later could another call seize it. It must not throw.
   *
   * @throws {unknown} `signal.reason` if the signal aborts first, or the error that `onWait` throws.
   */
  async enter(
    name: string,
    { signal, label, onWait, onTurn }: {
      readonly signal?: AbortSignal | undefined;
      readonly label?: string | undefined;
      readonly onWait?: ((info: WaitInfo) => void) | undefined;
      readonly onTurn?: (turn: Turn) => void;
    },
  ): Promise<Turn> {
    signal?.throwIfAborted();
    const turn = this.tryEnter(name);
    if (turn !== null) {
      onTurn?.(turn);
      return turn;
    }
    const line = this.#lines.get(name)!;
    const { waiters } = line;
    return await new Promise<Turn>((resolve, reject) => {
      const leave = () => {
        waiters.delete(waiter);
        line.reports?.leave(waiter);
        line.reports?.onChange();
        if (signal !== undefined) unwatchAbort(signal, listener);
      };
      const listener = { onAborted: () => waiter.reject(signal?.reason) };
      const waiter: QueuedWaiter = {
        sinceMs: performance.now(),
        label,
        onWait,
        grant: (turn) => {
          leave();
          onTurn?.(turn);
          resolve(turn);
        },
        reject: (reason) => (leave(), reject(reason)),
      };
      waiters.add(waiter);
      if (signal !== undefined) watchAbort(signal, listener);
      line.reports?.onChange();
      // Last, because `onWait` may end the turn that is waited for.
      if (onWait !== undefined) (line.reports ??= new WaitReports(line)).enter(waiter);
    });
  }

  /** The caller that has the turn begins to wait for something else (1), or has ended that (-1). */
  countAhead(name: string, change: 1 | -1): void {
    const line = this.#lines.get(name)!;
    line.ahead += change;
    line.reports?.onChange();
  }

  /** Takes the turn away from the caller that has it, ahead of all waiters. */
  seize(name: string): Turn {
    const line = this.#lines.get(name);
    return line === undefined ? this.tryEnter(name)! : this.#grant(name, line);
  }

  /** The first waiters of a name, first in line first. */
  waiters(name: string, max: number = Infinity): LocalWaiter[] {
    const first: LocalWaiter[] = [];
    for (const waiter of this.#lines.get(name)?.waiters ?? []) {
      if (first.length >= max) break;
      first.push(waiter);
    }
    return first;
  }

  waiterCount(name: string): number {
    return this.#lines.get(name)?.waiters.size ?? 0;
  }

  /** Rejects the waiters of all names. Current turns stay. */
  rejectAll(reason: unknown): void {
    for (const { waiters } of this.#lines.values()) {
      for (const waiter of [...waiters]) waiter.reject(reason);
    }
  }

  #grant(name: string, line: Line): Turn {
    const turn: Turn = {
      get isCurrent() {
        return line.turn === turn;
      },
      end: () => {
        if (line.turn !== turn) return false;
        const next = line.waiters.first;
        if (next === undefined) {
          line.turn = null;
          this.#lines.delete(name);
        } else next.grant(this.#grant(name, line));
        return true;
      },
    };
    line.turn = turn;
    return turn;
  }
}
