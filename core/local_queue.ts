/**
 * First come, first served within one process.
 *
 * @module
 */
import type { WaitInfo } from "./distributed_lock.ts";

/** A local waiter, as `query()` reports it. */
export interface LocalWaiter {
  /** When it started to wait, in monotonic ms. */
  readonly sinceMs: number;
}

interface QueuedWaiter extends LocalWaiter {
  grant(turn: Turn): void;
  reject(reason: unknown): void;
}

interface Line {
  turn: Turn | null;
  /** A Set keeps the order of arrival and removes a waiter in one step. */
  readonly waiters: Set<QueuedWaiter>;
}

/** Exclusive use of a name within this process. */
export interface Turn {
  /** False once {@linkcode LocalQueue.seize} gave the turn to another caller. */
  readonly isCurrent: boolean;
  /** Ends the turn; the next waiter gets its own. Returns false if the turn was seized before. */
  end(): boolean;
}

/** Options of {@linkcode LocalQueue.enter}. */
export interface EnterOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onWait?: ((info: WaitInfo) => void) | undefined;
}

/** A FIFO queue per name. A name without a turn and without waiters uses no memory. */
export class LocalQueue {
  readonly #lines = new Map<string, Line>();

  /** Returns a turn if no other caller has one. */
  tryEnter(name: string): Turn | null {
    if (this.#lines.has(name)) return null;
    const line: Line = { turn: null, waiters: new Set() };
    this.#lines.set(name, line);
    return this.#grant(name, line);
  }

  /** Waits for a turn. Rejects with `signal.reason`, or with the error that `onWait` throws. */
  async enter(name: string, { signal, onWait }: EnterOptions): Promise<Turn> {
    signal?.throwIfAborted();
    const turn = this.tryEnter(name);
    if (turn !== null) return turn;
    const { waiters } = this.#lines.get(name)!;
    onWait?.({ position: waiters.size + 1, waiters: waiters.size + 1 });
    return await new Promise<Turn>((resolve, reject) => {
      const leave = () => {
        waiters.delete(waiter);
        signal?.removeEventListener("abort", abort);
      };
      const abort = () => waiter.reject(signal?.reason);
      const waiter: QueuedWaiter = {
        sinceMs: performance.now(),
        grant: (turn) => (leave(), resolve(turn)),
        reject: (reason) => (leave(), reject(reason)),
      };
      waiters.add(waiter);
      signal?.addEventListener("abort", abort);
    });
  }

  /** Takes the turn away from its owner, ahead of all waiters. */
  seize(name: string): Turn {
    const line = this.#lines.get(name);
    return line === undefined ? this.tryEnter(name)! : this.#grant(name, line);
  }

  /** The waiters of a name, first in line first. */
  waiters(name: string): LocalWaiter[] {
    return [...this.#lines.get(name)?.waiters ?? []];
  }

  /** Rejects all waiters of all names. Current turns stay. */
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
        const [next] = line.waiters;
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
