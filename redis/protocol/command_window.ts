import type { Cancel, Clock } from "../../core/time/clock.ts";
import { type Timed, TimeHeap } from "../../core/time/time_heap.ts";
import { type LeaseRequest, UNSENT } from "../../core/lease/grant.ts";
import { NoAnswerError } from "../../core/time/outage_budget.ts";

/** How many commands the client may have without an answer. Enough to fill a fast connection. */
export const MAX_UNANSWERED = 256;

/** Of so many slots one is for asks; of the others every second one is for renewals. */
const ROUND = 8;

/** The silence of the connection is timed in this many steps. */
const STEPS = 10;

/** The wait of a renewal or release, or of another command that goes before asks. */
interface UrgentTurn extends Timed {
  readonly queue: TimeHeap<UrgentTurn>;
  readonly request: LeaseRequest | undefined;
  resolve(): void;
  reject(error: Error): void;
}

export class AskTurn implements Timed {
  readonly atMs: number;
  readonly order: number;
  index = -1;
  readonly #come = Promise.withResolvers<void>();
  #hasSlot = false;

  constructor(atMs: number, order: number) {
    this.atMs = atMs;
    this.order = order;
  }

  /** Resolves when the ask has its slot. Rejects if the connection has been silent for too long. */
  get come(): Promise<void> {
    return this.#come.promise;
  }

  /** Takes the slot, in order to use or free it. False if it has not come, or is taken. */
  take(): boolean {
    const hasSlot = this.#hasSlot;
    this.#hasSlot = false;
    return hasSlot;
  }

  onSlot(): void {
    this.#hasSlot = true;
    this.#come.resolve();
  }

  onSilence(): void {
    this.#come.reject(new NoAnswerError("The client cannot take more commands"));
  }
}

/**
 * Bounds the commands of one `RedisLock` that are sent and unanswered. Without a bound thousands of asks would delay
 * renewals and releases, reach the server after their time limit, and fill the queue of an offline client.
 *
 * A command has a slot from {@linkcode CommandWindow.take} or its turn until {@linkcode CommandWindow.free}. Without
 * a slot it waits. Asks go last, but have an eighth of the slots; renewals, those of the leases that end first, take
 * turns with releases: no burst of one kind stops another. An ask that waits fails when nothing was answered for
 * `unavailableAfterMs`. Time in which the event loop is blocked counts as one step at most: nothing is sent or read
 * then.
 */
export class CommandWindow {
  readonly #clock: Clock;
  readonly #unavailableAfterMs: number;
  readonly #stepMs: number;
  /**
   * Since when the server has answered nothing, in monotonic ms: the last answer, or the first command
   * after it. `null` if no command is unanswered. Only the window writes it.
   */
  silentSinceMs: number | null = null;
  /** The last answer that came while other commands were unanswered, in monotonic ms. Only the window writes it. */
  answeredAtMs = -Infinity;
  #unanswered = 0;
  /** In the order in which the leases end; then the clean-ups of lost leases. */
  readonly #renewals = new TimeHeap<UrgentTurn>();
  /** Releases, and what other calls wait for. */
  readonly #releases = new TimeHeap<UrgentTurn>();
  #place = 1;
  /** In the order in which their outages began: the first one is the first to fail. */
  readonly #asks = new TimeHeap<AskTurn>();
  #count = 0;
  /** How much time has passed in ms while asks waited for their turns and the event loop ran. */
  #waitedMs = 0;
  #stepStartMs = 0;
  /** The same at the last answer. */
  #answeredMs = 0;
  #cancelTimer: Cancel | null = null;

  constructor(clock: Clock, unavailableAfterMs: number) {
    this.#clock = clock;
    this.#unavailableAfterMs = unavailableAfterMs;
    this.#stepMs = unavailableAfterMs / STEPS;
  }

  /** Takes a slot if there is one. The caller must then send its command. */
  take(): boolean {
    // Commands wait only while there is no slot, so this one overtakes none of them.
    if (this.#unanswered === MAX_UNANSWERED) return false;
    this.#unanswered++;
    this.silentSinceMs ??= this.#clock.now();
    return true;
  }

  /** Frees the slot of a command that the server has answered, also with a refusal, or that has failed. */
  free(isAnswered: boolean): void {
    const wasFull = this.#unanswered-- === MAX_UNANSWERED;
    if (isAnswered) {
      const nowMs = this.#unanswered === 0 ? null : this.#clock.now();
      this.silentSinceMs = nowMs;
      if (nowMs !== null) {
        this.answeredAtMs = nowMs;
        this.#answeredMs = this.#waitedUntil(nowMs);
      }
    }
    if (wasFull) this.#letNextGo();
  }

  /** Waits for a slot, ahead of asks. `request` learns of its turn, and may decline it: then this rejects. */
  urgentTurn(request?: LeaseRequest): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const atMs = request?.byMs ?? 0;
    const queue = atMs === 0 ? this.#releases : this.#renewals;
    const turn = { atMs, order: this.#count++, index: -1, queue, request, resolve, reject };
    queue.add(turn);
    request?.onQueued(() => {
      if (queue.delete(turn)) reject(UNSENT);
    });
    return promise;
  }

  /** Waits for a slot, behind urgent commands. `sinceMs` is when the outage of the ask began, if there is one. */
  askTurn(sinceMs: number | null): AskTurn {
    const nowMs = this.#clock.now();
    if (this.#cancelTimer === null) {
      this.#answeredMs = this.#waitedMs - (nowMs - (this.silentSinceMs ?? nowMs));
      this.#step();
    }
    const turn = new AskTurn(
      this.#waitedUntil(nowMs) - (nowMs - (sinceMs ?? nowMs)),
      this.#count++,
    );
    this.#asks.add(turn);
    return turn;
  }

  /** Ends a turn. If its slot has not come, it never does; if it was not taken, it is free again. */
  withdraw(turn: AskTurn): void {
    this.#remove(turn);
    if (turn.take()) this.free(false);
  }

  #remove(turn: AskTurn): void {
    this.#asks.delete(turn);
    if (this.#asks.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  #letNextGo(): void {
    const ask = this.#asks.first;
    const isAskDue = ask !== undefined && this.#place === 0;
    const urgent = isAskDue ? undefined : this.#nextUrgent();
    if (urgent === undefined && ask === undefined) return;
    this.#place = (this.#place + 1) % ROUND;
    this.take();
    if (urgent !== undefined) return urgent.resolve();
    this.#remove(ask!);
    ask!.onSlot();
  }

  /** Requests that are of no use any more lose their turns. The clean-ups of lost leases go last. */
  #nextUrgent(): UrgentTurn | undefined {
    const isRenewalDue = this.#place % 2 === 0;
    for (;;) {
      const [renewal, release] = [this.#renewals.first, this.#releases.first];
      const takesRenewal = release === undefined || (isRenewalDue && renewal?.atMs !== Infinity);
      const first = takesRenewal ? renewal ?? release : release;
      if (first === undefined) return undefined;
      first.queue.delete(first);
      if (first.request?.onTurn() !== false) return first;
      first.reject(UNSENT);
    }
  }

  /** The value of `#waitedMs` if the current step ended at this moment. */
  #waitedUntil(nowMs: number): number {
    return this.#waitedMs + Math.min(nowMs - this.#stepStartMs, this.#stepMs);
  }

  #step(): void {
    this.#stepStartMs = this.#clock.now();
    this.#cancelTimer = this.#clock.schedule(() => {
      this.#cancelTimer = null;
      this.#waitedMs += this.#stepMs;
      this.#failAsks();
      if (this.#asks.size > 0) this.#step();
    }, this.#stepMs);
  }

  #failAsks(): void {
    for (;;) {
      const { first } = this.#asks;
      if (first === undefined) return;
      const silentMs = this.#waitedMs - Math.max(first.atMs, this.#answeredMs);
      if (silentMs < this.#unavailableAfterMs) return;
      this.#asks.delete(first);
      first.onSilence();
    }
  }
}
