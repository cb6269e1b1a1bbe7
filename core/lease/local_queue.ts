import { modeOf } from "../contract/call_options.ts";
import type {
  AcquireOptions,
  LockMode,
  LockWaiter,
  WaitInfo,
} from "../contract/distributed_lock.ts";
import { unwatchAbort, watchAbort } from "../time/abort_watch.ts";
import { BACKGROUND_CLOCK, type Cancel, type Clock, SYSTEM_CLOCK } from "../time/clock.ts";
import { LinkedSet } from "./linked_set.ts";

const EXCLUSIVE: AcquireOptions = {};

/** How many waiters get their turns in one step at most. The rest get them in later steps of the event loop. */
const MAX_BATCH = 64;
/** The least time in ms between two reports: else each release would cost more, the more waiters there are. */
const REPORT_EVERY_MS = 100;

interface QueuedWaiter extends Pick<AcquireOptions, "limit" | "label" | "onWait"> {
  readonly mode: LockMode;
  /** When it started to wait, in monotonic ms. */
  readonly sinceMs: number;
  grant(turn: Turn): void;
  /** Ends the wait, also if the caller's `onWait` throws. */
  reject(reason: unknown): void;
}

/** The queue of one name: the current turns and the waiters behind them. */
interface Line {
  readonly name: string;
  turns: number;
  isShared: boolean;
  /** The number of seizures so far: each ends all turns before it. */
  seizures: number;
  /** In the order of arrival. The first one fits only while turns are given out. */
  readonly waiters: LinkedSet<QueuedWaiter>;
  /** Who has the turn, and waits with it for something else: ahead of the waiters. */
  ahead: Pick<QueuedWaiter, "mode" | "sinceMs" | "label"> | null;
  /** `null` until a waiter has an `onWait`. */
  reports: WaitReports | null;
  /** Whether the next step goes on giving out turns. */
  isGoingOn: boolean;
}

/** Whether a caller may have a turn beside the current ones. */
function fits({ turns, isShared }: Line, terms: AcquireOptions): boolean {
  return turns === 0 ||
    (isShared && modeOf(terms) === "shared" && turns < (terms.limit ?? Infinity));
}

/** The use of a name within its queue: alone, or shared with others. */
export interface Turn {
  /** Whether this is still a turn of its name: false after its end, or after a seizure. */
  readonly isCurrent: boolean;
  /** Ends the turn, and gives turns to the next waiters that fit. Does nothing, and returns false, if not current. */
  end(): boolean;
}

/** The queues within one process, by name: first in, first out, for both modes. Knows no leases. */
export class LocalQueue {
  readonly #lines = new Map<string, Line>();
  readonly #clock: Clock;
  /** Whether all waiters are being rejected: then none gets a turn. */
  #isEnding = false;

  constructor(clock: Clock = SYSTEM_CLOCK) {
    this.#clock = clock;
  }

  /** Returns a turn of the mode and the limit of `terms`, or `null` if others wait or it does not fit. */
  tryEnter(name: string, terms: AcquireOptions = EXCLUSIVE): Turn | null {
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = {
        ...{ name, turns: 0, isShared: false, seizures: 0, isGoingOn: false },
        ...{ waiters: new LinkedSet(), ahead: null, reports: null },
      };
      this.#lines.set(name, line);
    } else if (line.waiters.size > 0 || !fits(line, terms)) return null;
    return this.#grant(line, terms);
  }

  /**
   * Waits for a turn. `onWait` is called if the caller has to wait, and soon after its place or the number of waiters
   * has changed; then `onTurn`, which must not throw, before another call could seize the turn. Rejects with
   * `signal.reason` if the signal aborts first, or with the error that `onWait` throws.
   */
  async enter(
    name: string,
    options: AcquireOptions & { readonly onTurn?: (turn: Turn) => void },
  ): Promise<Turn> {
    const { limit, signal, label, onWait, onTurn } = options;
    signal?.throwIfAborted();
    const turn = this.tryEnter(name, options);
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
        ...{ mode: modeOf(options), limit, sinceMs: this.#clock.now(), label, onWait },
        grant: (turn) => {
          leave();
          onTurn?.(turn);
          resolve(turn);
        },
        reject: (reason) => {
          leave();
          reject(reason);
          this.#admit(line); // it may have held up those behind it
        },
      };
      waiters.add(waiter);
      if (signal !== undefined) watchAbort(signal, listener);
      line.reports?.onChange();
      // Last, because `onWait` may end the turn that is waited for.
      if (onWait !== undefined) (line.reports ??= new WaitReports(line)).enter(waiter);
    });
  }

  /** The caller that has the turn begins to wait for something else; `null`: it has ended that. */
  waitAhead(name: string, waiter: Line["ahead"]): void {
    const line = this.#lines.get(name)!;
    line.ahead = waiter;
    line.reports?.onChange();
  }

  /** Ends all current turns, and returns a new one, ahead of all waiters. */
  seize(name: string): Turn {
    const line = this.#lines.get(name);
    if (line === undefined) return this.tryEnter(name)!;
    line.seizures++;
    line.turns = 0;
    return this.#grant(line, EXCLUSIVE);
  }

  /** The names that have a turn or a waiter. */
  names(): string[] {
    return [...this.#lines.keys()];
  }

  /** The first waiters of a name, as `query()` shows them, first in line first. */
  described(name: string, max: number): LockWaiter[] {
    const line = this.#lines.get(name);
    if (line === undefined) return [];
    const nowMs = this.#clock.now();
    const ahead = line.ahead === null ? [] : [line.ahead];
    return [...ahead, ...line.waiters.take(max)].slice(0, max)
      .map(({ mode, sinceMs, label }) => ({
        ...{ mode, ...(label ? { label } : {}), waitedMs: nowMs - sinceMs },
      }));
  }

  waiterCount(name: string): number {
    const line = this.#lines.get(name);
    return line === undefined ? 0 : line.waiters.size + (line.ahead === null ? 0 : 1);
  }

  /** Rejects the waiters of all names. Current turns stay. */
  rejectAll(reason: unknown): void {
    this.#isEnding = true;
    for (const line of this.#lines.values()) {
      for (const waiter of [...line.waiters]) waiter.reject(reason);
    }
    this.#isEnding = false;
  }

  #grant(line: Line, terms: AcquireOptions): Turn {
    const { seizures } = line;
    let isOver = false;
    line.turns++;
    line.isShared = modeOf(terms) === "shared";
    const turn: Turn = {
      get isCurrent() {
        return !isOver && line.seizures === seizures;
      },
      end: () => {
        if (!turn.isCurrent) return false;
        isOver = true;
        line.turns--;
        this.#admit(line);
        return true;
      },
    };
    return turn;
  }

  #admit(line: Line): void {
    if (this.#isEnding) return;
    for (let i = 0; i < MAX_BATCH; i++) {
      const next = line.waiters.first;
      if (next === undefined) return this.#forget(line);
      if (!fits(line, next)) return;
      next.grant(this.#grant(line, next));
    }
    if (line.isGoingOn) return;
    line.isGoingOn = true;
    this.#clock.schedule(() => {
      line.isGoingOn = false;
      this.#admit(line);
    }, 0);
  }

  /** Forgets a queue without waiters, unless it has a turn, or another one of its name is there by now. */
  #forget(line: Line): void {
    if (line.turns === 0 && this.#lines.get(line.name) === line) this.#lines.delete(line.name);
  }
}

/** The reports of one queue to its waiters. Changes in a step, or {@linkcode REPORT_EVERY_MS}, make one report. */
class WaitReports {
  readonly #line: Line;
  /** What each waiter with an `onWait` was told last. */
  readonly #told = new Map<QueuedWaiter, WaitInfo>();
  #reportedMs = -Infinity;
  #cancelTimer: Cancel | null = null;

  constructor(line: Line) {
    this.#line = line;
  }

  /** Reports to a new waiter, the last one of its queue, at once. */
  enter(waiter: QueuedWaiter): void {
    const { ahead, waiters } = this.#line;
    const count = waiters.size + (ahead === null ? 0 : 1);
    this.#tell(waiter, { position: count, waiters: count });
  }

  leave(waiter: QueuedWaiter): void {
    this.#told.delete(waiter);
    if (this.#told.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  /** Some waiter has another place, or their number has changed. */
  onChange(): void {
    if (this.#told.size === 0 || this.#cancelTimer !== null) return;
    const delayMs = this.#reportedMs + REPORT_EVERY_MS - BACKGROUND_CLOCK.now();
    this.#cancelTimer = BACKGROUND_CLOCK.schedule(() => this.#report(), delayMs);
  }

  #report(): void {
    this.#cancelTimer = null;
    this.#reportedMs = BACKGROUND_CLOCK.now();
    const { ahead, waiters } = this.#line;
    let position = ahead === null ? 0 : 1;
    const count = position + waiters.size;
    for (const waiter of [...waiters]) {
      position++;
      const told = this.#told.get(waiter);
      if (told === undefined || (told.position === position && told.waiters === count)) continue;
      this.#tell(waiter, { position, waiters: count });
    }
  }

  #tell(waiter: QueuedWaiter, info: WaitInfo): void {
    this.#told.set(waiter, info);
    try {
      waiter.onWait?.(info);
    } catch (error) {
      waiter.reject(error);
    }
  }
}
