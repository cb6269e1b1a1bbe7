/**
 * Holds a lease for a response of `node:http` and the handler that makes it, and releases it once.
 * Each framework's entry answers a loss itself.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { releaseInTime } from "./lease_end.ts";
import type { ResponseListener, ResponseWatch } from "./response_watch.ts";

/** Is notified of a loss. */
export interface LossListener {
  /** The lease is lost, and the response has not begun: there can be another response. */
  leaseLost(isHandlerRunning: boolean): void;
}

/** Is notified of the end of a response before it is sent. */
export interface EndListener {
  /** The response is made but its end is not sent yet. */
  beforeEnd(): void;
}

/** The parties that still need the lease; none does once it is released. */
type HoldPhase =
  /** No handler runs: it has not begun, or it has ended. */
  | { readonly neededBy: "response" }
  | { readonly neededBy: "handler and response" }
  /** The response is over, and the handler still runs. */
  | { readonly neededBy: "handler" }
  | { readonly neededBy: "nothing"; readonly released: Promise<void> };

/** Microtask turns that a handler has to end when its response is made; nested promises take some. */
const END_TURNS = 10;

/**
 * Holds a lease for a response: releases it once, when the response is over and no handler runs under
 * it. A loss breaks off a response that has begun.
 */
export class ResponseHold implements ResponseListener {
  readonly lease: Lease;
  readonly #watch: ResponseWatch;
  readonly #lossListener: LossListener;
  readonly #endListeners: EndListener[] = [];
  #phase: HoldPhase;

  /**
   * @param isHandlerRunning Whether a handler runs already; if not, there may be none.
   * @param lossListener Notified also of a loss that has happened before.
   */
  constructor(
    lease: Lease,
    watch: ResponseWatch,
    isHandlerRunning: boolean,
    lossListener: LossListener,
  ) {
    this.lease = lease;
    this.#watch = watch;
    this.#lossListener = lossListener;
    this.#phase = { neededBy: isHandlerRunning ? "handler and response" : "response" };
    watch.listen(this);
    const { signal } = lease;
    if (signal.aborted) this.#onLost();
    else signal.addEventListener("abort", this.#onLost);
  }

  /** The handler begins. */
  handlerStarted(): void {
    if (this.#phase.neededBy === "response") this.#phase = { neededBy: "handler and response" };
  }

  /** The handler has ended. */
  handlerEnded(): void {
    const { neededBy } = this.#phase;
    if (neededBy !== "handler and response" && neededBy !== "handler") return;
    this.#phase = { neededBy: "response" };
    if (neededBy === "handler") this.#release();
  }

  /** Called by the watch. */
  responseOver(): Promise<void> | undefined {
    const { hasBegun } = this.#watch;
    if (hasBegun) void this.lease.signal; // reads the clock: a loss shows before any timer has run
    if (this.#phase.neededBy === "response") return this.#release();
    if (this.#phase.neededBy !== "handler and response") return undefined;
    this.#phase = { neededBy: "handler" };
    return hasBegun && this.#endListeners.length > 0 ? this.#awaitHandler() : undefined;
  }

  /** Notifies the listener when the response is made: a handler may wait for that, and then end. */
  onEnd(listener: EndListener): void {
    this.#endListeners.push(listener);
  }

  /** A handler that does not end now, after the response it has waited for, runs on. */
  async #awaitHandler(): Promise<void> {
    for (const listener of this.#endListeners) listener.beforeEnd();
    for (let turn = 0; turn < END_TURNS && this.#phase.neededBy === "handler"; turn++) await null;
    if (this.#phase.neededBy === "nothing") await this.#phase.released;
  }

  readonly #onLost = (): void => {
    const { neededBy } = this.#phase;
    if (neededBy === "nothing") return;
    if (this.#watch.hasBegun) this.#watch.breakOff();
    else this.#lossListener.leaseLost(neededBy !== "response");
  };

  #release(): Promise<void> {
    this.lease.signal.removeEventListener("abort", this.#onLost);
    const released = releaseInTime(this.lease);
    this.#phase = { neededBy: "nothing", released };
    return released;
  }
}
