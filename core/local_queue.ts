/**
 * First come, first served within one process.
 *
 * @module
 */
import type { WaitInfo } from "./distributed_lock.ts";

/** A waiter as others may see it. */
export interface TurnWaiter {
  /** When it started to wait, in monotonic ms. */
  readonly sinceMs: number;
}

interface Waiter extends TurnWaiter {
  grant(turn: Turn): void;
  reject(reason: unknown): void;
}

interface Line {
  turn: Turn | null;
  /** A Set keeps the order of arrival and forgets a waiter in one step. */
  readonly waiters: Set<Waiter>;
}

/** The right to be the one of this process that deals with a name. */
export interface Turn {
  /** Whether nobody took it away by {@linkcode Turns.seize}. */
  readonly isMine: boolean;
  /** Hands the turn to the next in line; `false` if it was no longer ours. */
  done(): boolean;
}

/** What a wait for a turn may take. */
export interface TakeOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onWait?: ((info: WaitInfo) => void) | undefined;
}

/** A FIFO line per name. A line that nobody stands in costs nothing. */
export class Turns {
  readonly #lines = new Map<string, Line>();

  /** The turn, if nobody has it. */
  tryTake(name: string): Turn | null {
    if (this.#lines.has(name)) return null;
    const line: Line = { turn: null, waiters: new Set() };
    this.#lines.set(name, line);
    return this.#give(name, line);
  }

  /** Waits for the turn. Rejects with `signal.reason`, or with what `onWait` throws. */
  async take(name: string, { signal, onWait }: TakeOptions): Promise<Turn> {
    signal?.throwIfAborted();
    const turn = this.tryTake(name);
    if (turn !== null) return turn;
    const { waiters } = this.#lines.get(name)!;
    onWait?.({ position: waiters.size + 1, waiters: waiters.size + 1 });
    return await new Promise<Turn>((resolve, reject) => {
      const leave = () => {
        waiters.delete(waiter);
        signal?.removeEventListener("abort", abort);
      };
      const abort = () => waiter.reject(signal?.reason);
      const waiter: Waiter = {
        sinceMs: performance.now(),
        grant: (turn) => (leave(), resolve(turn)),
        reject: (reason) => (leave(), reject(reason)),
      };
      waiters.add(waiter);
      signal?.addEventListener("abort", abort);
    });
  }

  /** Takes the turn away from whoever has it, ahead of all who wait. */
  seize(name: string): Turn {
    const line = this.#lines.get(name);
    return line === undefined ? this.tryTake(name)! : this.#give(name, line);
  }

  /** Those who wait for a name, first in line first. */
  waiters(name: string): TurnWaiter[] {
    return [...this.#lines.get(name)?.waiters ?? []];
  }

  /** Rejects all waiters of all names. Turns that are held stay. */
  rejectAll(reason: unknown): void {
    for (const { waiters } of this.#lines.values()) {
      for (const waiter of [...waiters]) waiter.reject(reason);
    }
  }

  #give(name: string, line: Line): Turn {
    const turn: Turn = {
      get isMine() {
        return line.turn === turn;
      },
      done: () => {
        if (line.turn !== turn) return false;
        const [next] = line.waiters;
        if (next === undefined) {
          line.turn = null;
          this.#lines.delete(name);
        } else next.grant(this.#give(name, line));
        return true;
      },
    };
    line.turn = turn;
    return turn;
  }
}
