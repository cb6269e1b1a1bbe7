/**
 * The call of a NestJS handler under a lock: its results come from an observable, so its end is that of the
 * observable. When the lock is released is in `node_response.ts`.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { lossOf, stemsFrom } from "../../core/contract/request.ts";
import { leaseLost } from "../shared/problem.ts";
import type { LockedResponse, LossListener } from "./node_response.ts";
import { type HandlerShield, type ShieldedResponse, writeProblem } from "./node_shield.ts";
import { type HoldSettings, report } from "./options.ts";
import { discard } from "./request.ts";

/** Gets the results of a handler, its error or its end. */
export interface ResultObserver {
  /** A result. */
  next(value: unknown): void;
  /** The handler has failed. */
  error(error: unknown): void;
  /** The handler has ended. */
  complete(): void;
}

/** The part of Nest's `CallHandler` that is used. */
export interface NestLockCall {
  /** The results of the handler, as an observable. A subscription calls the handler. */
  handle(): { subscribe(observer: ResultObserver): { unsubscribe(): void } };
}

export class LockedCall implements LossListener {
  readonly #lease: Lease;
  readonly #response: ShieldedResponse;
  readonly #shield: HandlerShield;
  readonly #locked: LockedResponse;
  readonly #settings: HoldSettings;
  readonly #lossError: () => unknown;
  /**
   * - `"waiting"`: nobody has subscribed yet;
   * - `"running"`: the handler runs;
   * - `"left"`: nobody wants its results any more, but it runs;
   * - `"lost"`: the lease was lost while it ran: it may run on;
   * - `"ended"`: it has ended.
   */
  #state: "waiting" | "running" | "left" | "lost" | "ended" = "waiting";
  #observer: ResultObserver | null = null;
  #hasResult = false;

  /** @param lossError Makes the error that is answered with 503 if the lease is lost. */
  constructor(
    lease: Lease,
    response: ShieldedResponse,
    shield: HandlerShield,
    locked: LockedResponse,
    settings: HoldSettings,
    lossError: () => unknown,
  ) {
    this.#lease = lease;
    this.#response = response;
    this.#shield = shield;
    this.#locked = locked;
    this.#settings = settings;
    this.#lossError = lossError;
    // After a loss, the framework answers an error: nothing that the handler writes then has an effect.
    const { end } = response;
    response.end = (...args) => {
      if (this.#state === "lost") shield.answered();
      return end.apply(response, args);
    };
    locked.hold(lease, settings, this);
  }

  /**
   * Calls the handler and passes on its results. If it must not run, that is an error, which nobody sees if the
   * response is over.
   *
   * @returns A function to call when nobody wants them any more.
   */
  run(source: ReturnType<NestLockCall["handle"]>, observer: ResultObserver): () => void {
    if (this.#state !== "waiting" || !this.#locked.startHandler()) {
      const { released } = this.#locked;
      const refuse = () => observer.error(this.#lossError());
      // The framework would write the error into a response whose last bytes wait for the release.
      if (released === null) refuse();
      else released.then(refuse).catch((failure) => report(this.#settings, failure));
      return () => {};
    }
    this.#state = "running";
    this.#observer = observer;
    const subscription = source.subscribe({
      next: (value) => {
        this.#hasResult = true;
        if (this.#state === "running") return observer.next(value);
        discard(value, this.#settings);
        queueMicrotask(() => this.#stop(subscription));
      },
      error: (error) => void this.#end(() => observer.error(error), error),
      complete: () => void this.#end(() => observer.complete()),
    });
    return () => {
      if (this.#state === "running") this.#state = "left";
      // Its first result is the end of a handler, except for a stream of results, which ends here.
      if (this.#hasResult) this.#stop(subscription);
    };
  }

  onLeaseLost(): void {
    report(this.#settings, this.#lease.signal.reason);
    this.#fail();
  }

  #fail(): void {
    const state = this.#state;
    if (state === "lost") return;
    this.#state = "lost";
    if (state === "running") return this.#observer?.error(this.#lossError());
    if (state !== "ended") return;
    // The framework may be about to send the result, or the handler to write the response by hand.
    this.#shield.replace(() => {
      if (this.#locked.abandoned.aborted) return;
      this.#response.end(writeProblem(this.#response, leaseLost()) as never);
    });
  }

  /** Never throws: nobody would catch it. What the observable throws at its end is reported. */
  #stop(subscription: { unsubscribe(): void }): void {
    try {
      subscription.unsubscribe();
    } catch (error) {
      report(this.#settings, error);
    }
    this.#locked.handlerEnded();
  }

  /** The handler has ended. Asks once more whether the lease is lost: timers may be late. */
  async #end(pass: () => void, error?: unknown): Promise<void> {
    const loss = await lossOf(this.#lease);
    if (this.#state === "running" && loss === null) {
      this.#state = "ended";
      this.#locked.handlerEnded();
      return pass();
    }
    try {
      if (this.#state === "running") {
        report(this.#settings, loss);
        this.#fail();
      }
    } catch (failure) {
      report(this.#settings, failure);
    } finally {
      this.#locked.handlerEnded();
    }
    if (error !== undefined && !stemsFrom(error, this.#lease.signal.reason)) {
      report(this.#settings, error);
    }
  }
}
