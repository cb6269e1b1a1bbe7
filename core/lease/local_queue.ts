/**
 * Queues within one process, first in, first out. Nothing here knows other processes or leases.
 *
 * @module
 */
import type { WaitInfo } from "../contract/distributed_lock.ts";
import { type Clock, SYSTEM_CLOCK } from "../time/clock.ts";
import { LinkedSet } from "./linked_set.ts";

/** A local waiter, as `query()` reports it. */
export interface LocalWaiter {
  /** When it started to wait, in monotonic ms. */
  readonly sinceMs: number;
  /** The label of its call, if it has one. */
  readonly label?: string | undefined;
}

interface QueuedWaiter extends LocalWaiter {
  grant(turn: Turn): void;
  reject(reason: unknown): void;
}

/** The queue of one name: the current turn and the waiters behind it. */
interface Line {
  turn: Turn | null;
  /** In the order of arrival. */
  readonly waiters: LinkedSet<QueuedWaiter>;
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
  readonly #clock: Clock;

  constructor(clock: Clock = SYSTEM_CLOCK) {
    this.#clock = clock;
  }

  /** Returns a turn, or `null` if another caller has it. */
  tryEnter(name: string): Turn | null {
    if (this.#lines.has(name)) return null;
    const line: Line = { turn: null, waiters: new LinkedSet() };
    this.#lines.set(name, line);
    return this.#grant(name, line);
  }

  /**
   * Waits for a turn. `onWait` is called once, if the caller has to wait; then `onTurn`, in the step that
   * grants the turn: only later could another call seize it. It must not throw.
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
    const { waiters } = this.#lines.get(name)!;
    onWait?.({ position: waiters.size + 1, waiters: waiters.size + 1 });
    return await new Promise<Turn>((resolve, reject) => {
      const leave = () => {
        waiters.delete(waiter);
        signal?.removeEventListener("abort", abort);
      };
      const abort = () => waiter.reject(signal?.reason);
      const waiter: QueuedWaiter = {
        sinceMs: this.#clock.now(),
        label,
        grant: (turn) => {
          leave();
          onTurn?.(turn);
          resolve(turn);
        },
        reject: (reason) => (leave(), reject(reason)),
      };
      waiters.add(waiter);
      signal?.addEventListener("abort", abort);
    });
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
