/**
 * Keeps the lock of a request until its `node:http` response is over and its handler has ended.
 * `response_watch.ts` detects the end of the response; each framework's entry answers a lost lease.
 *
 * @module
 */
import type { Lease } from "../../core/contract/distributed_lock.ts";
import { releaseInTime } from "./lease_end.ts";
import type { HoldSettings } from "./options.ts";
import type { ResponseListener, ResponseWatch } from "./response_watch.ts";

/** Is notified when the lease is lost. */
export interface LossListener {
  /** The lease is lost before anything was sent: the listener can still send an error instead. */
  leaseLost(isHandlerRunning: boolean): void;
}

/** Is notified right before the end of a response is sent. */
export interface EndListener {
  /** The response is ready except for its last bytes, which are sent after this call. */
  beforeEnd(): void;
}

/** Says for whom the lock is still held. */
type HoldPhase =
  /** The response is not over. No handler runs: it has not started yet, or it has ended. */
  | { readonly neededBy: "response" }
  /** The handler runs, and the response is not over. */
  | { readonly neededBy: "handler and response" }
  /** The response is over, but the handler still runs. */
  | { readonly neededBy: "handler" }
  /** Both are over. `released` resolves once the lock is released, after 1 s at the latest. */
  | { readonly neededBy: "nothing"; readonly released: Promise<void> };

/**
 * A handler may wait for the end of its own response. It is notified right before the last bytes are
 * sent, and has this many microtask turns to end; each promise that it awaits takes some.
 */
const END_TURNS = 10;

/**
 * Holds the lock of one request and releases it once, when the response is over *and* no handler runs.
 * The response is over when `end()` is called on it, or when the client disconnects.
 *
 * - If the handler ends first, the lock is released in `end()`, and the last bytes wait for that (1 s
 *   at most): a client that has the whole response finds the lock free.
 * - If the response is over first, the lock is held until the handler ends. The last bytes do not wait,
 *   except for a handler that waits for the end of its own response (`onEnd()`).
 * - If the lease is lost before that (after `maxHoldMs`, for instance), a response that has begun is
 *   broken off, so that the client does not take a part for the whole. If nothing was sent yet, the
 *   listener is notified and sends an error instead. The handler is notified by `lease.signal`.
 */
export class ResponseHold implements ResponseListener {
  readonly lease: Lease;
  readonly #watch: ResponseWatch;
  readonly #lossListener: LossListener;
  readonly #settings: HoldSettings;
  readonly #endListeners: EndListener[] = [];
  #phase: HoldPhase;
  /** Whether the end of the response is decided: another answer would come too late. */
  #isEnding = false;

  /**
   * @param isHandlerRunning True if the handler runs already. Otherwise `handlerStarted()` says so
   * later, or no handler runs at all because the request is answered before it.
   * @param lossListener Notified at once if the lease is lost already.
   */
  constructor(
    lease: Lease,
    watch: ResponseWatch,
    isHandlerRunning: boolean,
    lossListener: LossListener,
    settings: HoldSettings,
  ) {
    this.lease = lease;
    this.#settings = settings;
    this.#watch = watch;
    this.#lossListener = lossListener;
    this.#phase = { neededBy: isHandlerRunning ? "handler and response" : "response" };
    watch.listen(this);
    const { signal } = lease;
    if (signal.aborted) this.#onLost();
    else signal.addEventListener("abort", this.#onLost);
  }

  /** The handler starts: from now on the lock is held until it ends. */
  handlerStarted(): void {
    if (this.#phase.neededBy === "response") this.#phase = { neededBy: "handler and response" };
  }

  /** The handler has ended. If the response is over, nothing needs the lock any more: releases it. */
  handlerEnded(): void {
    const { neededBy } = this.#phase;
    if (neededBy !== "handler and response" && neededBy !== "handler") return;
    this.#phase = { neededBy: "response" };
    if (neededBy === "handler") this.#release();
  }

  /**
   * The response ends, or the client has disconnected. Releases the lock unless the handler still runs.
   *
   * @returns The release, if the last bytes must wait for it.
   */
  responseOver(): Promise<void> | undefined {
    const { hasBegun, gone } = this.#watch;
    // The getter checks the clock: if the lease has expired, it calls `#onLost` now, even if no timer has
    // fired yet, and the response is broken off. It is too late for another answer.
    this.#isEnding = !gone.aborted;
    if (this.#isEnding && (hasBegun || this.#phase.neededBy === "response")) void this.lease.signal;
    if (this.#phase.neededBy === "response") return this.#release();
    if (this.#phase.neededBy !== "handler and response") return undefined;
    this.#phase = { neededBy: "handler" };
    return hasBegun && this.#endListeners.length > 0 ? this.#awaitHandler() : undefined;
  }

  /** Adds a listener for a handler that waits for the end of its own response. */
  onEnd(listener: EndListener): void {
    this.#endListeners.push(listener);
  }

  /**
   * Notifies the handler of the end of its response, and gives it a moment to end. If it does, the last
   * bytes wait for the release; if not, they are sent, and the lock is held until the handler ends.
   */
  async #awaitHandler(): Promise<void> {
    for (const listener of this.#endListeners) listener.beforeEnd();
    for (let turn = 0; turn < END_TURNS && this.#phase.neededBy === "handler"; turn++) await null;
    if (this.#phase.neededBy === "nothing") await this.#phase.released;
  }

  /** Breaks off the response, or has the listener answer. Does not release: the lease is lost anyway. */
  readonly #onLost = (): void => {
    const { neededBy } = this.#phase;
    if (neededBy === "nothing") return;
    if (this.#watch.hasBegun || this.#isEnding) this.#watch.breakOff();
    else this.#lossListener.leaseLost(neededBy !== "response");
  };

  #release(): Promise<void> {
    this.lease.signal.removeEventListener("abort", this.#onLost);
    const released = releaseInTime(this.lease, this.#settings);
    this.#phase = { neededBy: "nothing", released };
    return released;
  }
}
