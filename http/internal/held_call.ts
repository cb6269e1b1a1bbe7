/**
 * Holds the lock for a handler whose results come from an observable, as NestJS has it: its end is that of
 * the observable. When the lock is released is in `response_hold.ts`.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { writeProblem } from "./express_hold.ts";
import type { WatchedResponse } from "./express_hold.ts";
import { lossOf } from "./lease_end.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost } from "./problem.ts";
import { type LossListener, ResponseHold } from "./response_hold.ts";

/** Gets the results of a handler, its error or its end. */
export interface ResultObserver {
  /** A result. */
  next(value: unknown): void;
  /** The handler has failed. */
  error(error: unknown): void;
  /** The handler has ended. */
  complete(): void;
}

/** The results of a handler. The handler is called by a subscription. */
export interface ResultSource {
  /** Calls the handler. */
  subscribe(observer: ResultObserver): { unsubscribe(): void };
}

/**
 * - `"waiting"`: nobody has subscribed yet;
 * - `"running"`: the handler runs;
 * - `"left"`: nobody wants its results any more, but it runs;
 * - `"lost"`: the lease was lost while it ran: it may run on;
 * - `"ended"`: it has ended.
 */
type CallPhase = "waiting" | "running" | "left" | "lost" | "ended";

/** Holds the lock of one call of a handler, until the handler has ended and the response is over. */
export class HeldCall implements LossListener {
  readonly #lease: Lease;
  readonly #watched: WatchedResponse;
  readonly #settings: HoldSettings;
  readonly #lossError: () => unknown;
  readonly #hold: ResponseHold;
  #phase: CallPhase = "waiting";
  #observer: ResultObserver | null = null;
  #hasResult = false;

  /** @param lossError Makes the error that is answered with 503 if the lease is lost. */
  constructor(
    lease: Lease,
    watched: WatchedResponse,
    settings: HoldSettings,
    lossError: () => unknown,
  ) {
    this.#lease = lease;
    this.#watched = watched;
    this.#settings = settings;
    this.#lossError = lossError;
    this.#shieldAnswerOfLoss();
    this.#hold = new ResponseHold(lease, watched.watch, false, this, settings);
  }

  /**
   * Calls the handler and passes on its results.
   *
   * @returns A function to call when nobody wants them any more.
   */
  run(source: ResultSource, observer: ResultObserver): () => void {
    if (this.#phase !== "waiting") {
      observer.error(this.#lossError());
      return () => {};
    }
    this.#phase = "running";
    this.#observer = observer;
    this.#hold.handlerStarted();
    const subscription = source.subscribe({
      next: (value) => {
        this.#hasResult = true;
        if (this.#phase === "running") return observer.next(value);
        discard(value);
        queueMicrotask(() => this.#stop(subscription));
      },
      error: (error) => void this.#end(() => observer.error(error), error),
      complete: () => void this.#end(() => observer.complete()),
    });
    return () => {
      if (this.#phase === "running") this.#phase = "left";
      // Its first result is the end of a handler, except for a stream of results, which ends here.
      if (this.#hasResult) this.#stop(subscription);
    };
  }

  /** The lease is lost before anything was sent. */
  leaseLost(): void {
    report(this.#settings, this.#lease.signal.reason);
    this.#fail();
  }

  #fail(): void {
    const phase = this.#phase;
    if (phase === "lost") return;
    this.#phase = "lost";
    if (phase === "running") return this.#observer?.error(this.#lossError());
    if (phase !== "ended") return;
    // The framework may be about to send the result, or the handler to write the response by hand.
    const { response, shield, watch } = this.#watched;
    shield.replace(() => {
      if (!watch.gone.aborted) response.end(writeProblem(response, leaseLost()) as never);
    });
  }

  #stop(subscription: { unsubscribe(): void }): void {
    subscription.unsubscribe();
    this.#hold.handlerEnded();
  }

  /** The handler has ended. Asks once more whether the lease is lost: timers may be late. */
  async #end(pass: () => void, error?: unknown): Promise<void> {
    const loss = await lossOf(this.#lease);
    if (this.#phase === "running" && loss === null) {
      this.#phase = "ended";
      this.#hold.handlerEnded();
      return pass();
    }
    if (this.#phase === "running") {
      report(this.#settings, loss);
      this.#fail();
    }
    this.#hold.handlerEnded();
    if (error !== undefined && !stemsFrom(error, this.#lease.signal.reason)) {
      report(this.#settings, error);
    }
  }

  /** After a loss, the framework answers an error: nothing that the handler writes then has an effect. */
  #shieldAnswerOfLoss(): void {
    const { response, shield } = this.#watched;
    const { end } = response;
    response.end = (...args) => {
      if (this.#phase === "lost") shield.answered();
      return end.apply(response, args);
    };
  }
}

/** Destroys a stream that is not sent: it may have a file open. Nest wraps some streams. */
function discard(value: unknown): void {
  const { getStream } = Object(value) as { getStream?: () => unknown };
  const stream = Object(getStream?.call(value) ?? value) as {
    pipe?: unknown;
    destroy?: () => void;
  };
  if (typeof stream.pipe === "function") stream.destroy?.();
}

/** Whether an error is `reason`, or has it as its cause. */
function stemsFrom(error: unknown, reason: unknown): boolean {
  return error === reason || error instanceof Error && error.cause === reason;
}
