/**
 * Calls for the same lock with the same `ownerId` share one acquisition and its lease. Calls without
 * an `ownerId` do not come here.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import { instant } from "../core/clock.ts";
import type { WaitInfo } from "../core/distributed_lock.ts";
import type { ManagedLease } from "../core/lease.ts";
import { Acquisition, type AcquisitionListener, type AcquisitionRequest } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";
import { makeOwner } from "./protocol/owner_value.ts";
import { repeated } from "./repeated.ts";

/** The answer to a call that has joined an acquisition. */
type JoinAnswer =
  | { readonly kind: "queued"; readonly info: WaitInfo }
  | { readonly kind: "settled"; readonly lease: ManagedLease | null };

/** The shared acquisitions of one `RedisLock`, by lock and owner id. */
export class SharedAcquisitions {
  readonly #context: CallContext;
  readonly #shared = new Map<string, SharedAcquisition>();
  /** Resolve when no call is taking the lock over within its owner id. */
  readonly #taking = new Map<string, Promise<unknown>>();

  constructor(context: CallContext) {
    this.#context = context;
  }

  /**
   * Joins the acquisition of the same lock and owner id, or its lease; starts one if there is none. An
   * attach always makes a lease of its own. Each call asks Redis. Resolves with `null` if this call does
   * not wait, and the lock is not to be had now.
   *
   * @param signal Aborts when the call ends: the caller's signal, and disposal.
   */
  async join(request: AcquisitionRequest, signal: AbortSignal): Promise<ManagedLease | null> {
    const key = JSON.stringify([request.name, request.owner.ownerId]);
    for (;;) {
      const shared = this.#shared.get(key);
      if (isTaking(request, shared)) return await this.#take(key, shared, request, signal);
      const taking = this.#taking.get(key);
      if (taking !== undefined) {
        await repeated(request.budget, signal, () => taking);
      } else if (shared !== undefined) {
        const answer = await shared.join(request, signal);
        if (answer !== "over") return answer;
      } else {
        const lease = await this.#open(key, request).start();
        if (lease !== null || request.mode.kind !== "wait") return lease;
        // An attach has taken over what this call waited for. The server refuses the value that has left.
        request = { ...request, owner: makeOwner(request.owner.ownerId) };
      }
    }
  }

  #open(key: string, request: AcquisitionRequest): SharedAcquisition {
    return new SharedAcquisition(this.#shared, key, this.#context, request);
  }

  /**
   * Gets the lock apart from the earlier acquisition, which ends if this succeeds. Meanwhile no other
   * call of the owner id starts: if it were cut off, its clean-up would release what this call gets.
   */
  async #take(
    key: string,
    earlier: SharedAcquisition | undefined,
    request: AcquisitionRequest,
    signal: AbortSignal,
  ): Promise<ManagedLease | null> {
    earlier?.keepLock();
    const taken = this.#open(key, request).replace(earlier);
    const taking = Promise.allSettled([this.#taking.get(key), taken]);
    this.#taking.set(key, taking);
    taking.then(() => this.#taking.get(key) === taking && this.#taking.delete(key));
    const lease = await taken;
    // The owner id does not hold the lock, so neither does its earlier lease.
    if (lease === null) await earlier?.verify(request, signal);
    return lease;
  }
}

/** Whether a call makes a lease of its own, beside the acquisition that its owner id has. */
function isTaking({ mode }: AcquisitionRequest, shared: SharedAcquisition | undefined): boolean {
  return mode.kind === "attach" ||
    (mode.kind === "steal" && shared !== undefined && shared.lease === null);
}

/** One acquisition that several calls share. */
class SharedAcquisition implements AcquisitionListener {
  /** The lease, once there is one. */
  lease: ManagedLease | null = null;
  readonly #shared: Map<string, SharedAcquisition>;
  readonly #key: string;
  readonly #context: CallContext;
  readonly #acquisition: Acquisition;
  /** Resolves when the acquisition has ended, with its lease or `null`. */
  readonly #settled = Promise.withResolvers<ManagedLease | null>();
  #isSettled = false;
  /** Resolves with the answer to the next ask; `null` if no call waits for it. */
  #nextAnswer: PromiseWithResolvers<JoinAnswer> | null = null;

  constructor(
    shared: Map<string, SharedAcquisition>,
    key: string,
    context: CallContext,
    request: AcquisitionRequest,
  ) {
    this.#shared = shared;
    this.#key = key;
    this.#context = context;
    this.#acquisition = new Acquisition(context, request, this);
  }

  /** Runs the acquisition. Other calls can join until it ends without a lease, or its lease ends. */
  async start(): Promise<ManagedLease | null> {
    this.#shared.set(this.#key, this);
    try {
      return this.lease = await this.#acquisition.run();
    } finally {
      this.#settle();
      if (this.lease === null) this.remove();
    }
  }

  /** Runs the acquisition. If it gets a lease, other calls join this one instead of `earlier`. */
  async replace(earlier: SharedAcquisition | undefined): Promise<ManagedLease | null> {
    try {
      this.lease = await this.#acquisition.run();
    } finally {
      this.#settle();
    }
    if (this.lease === null || this.lease.remainingMs === 0) return this.lease;
    this.#shared.set(this.#key, this);
    earlier?.withdraw();
    return this.lease;
  }

  /**
   * Asks Redis. Resolves with the lease if it is still held; with `null` if the call must not wait, and
   * the lock is not to be had; with `"over"` if the call must start anew.
   */
  async join(
    request: AcquisitionRequest,
    signal: AbortSignal,
  ): Promise<ManagedLease | null | "over"> {
    const answer = await abortable(this.#next(), signal);
    if (answer.kind === "queued") {
      const { position: _, ...withoutPlace } = answer.info;
      const waits = request.mode.kind === "wait";
      request.onWait?.(waits ? answer.info : withoutPlace);
      if (!waits) return null;
      await abortable(this.#settled.promise, signal);
    }
    if (await this.verify(request, signal)) return this.lease;
    this.remove();
    return "over";
  }

  /** Whether Redis says that the lease is still held. If not, it is lost. If so, it is prolonged. */
  async verify({ ttlMs, budget }: AcquisitionRequest, signal: AbortSignal): Promise<boolean> {
    const { lease } = this;
    if (lease === null) return false;
    const { sent, answer } = await repeated(budget, signal, async () => {
      const sent = instant(this.#context.engine.clock);
      return { sent, answer: await this.#acquisition.renew(ttlMs) };
    });
    if (answer.state === "held") lease.extend(sent, answer.validMs, ttlMs);
    else if (answer.state === "lost") lease.lose(answer.reason);
    return lease.remainingMs > 0;
  }

  /**
   * From now on the clean-up releases no lock: an ask under way may take over what a rival of the same
   * owner id is being granted.
   */
  keepLock(): void {
    this.#acquisition.keepLock();
  }

  /** Ends the acquisition without a lease, unless it has one. */
  withdraw(): void {
    this.#acquisition.withdraw();
  }

  /** Makes later calls start over. Does nothing if a later acquisition has replaced this one. */
  remove(): void {
    if (this.#shared.get(this.#key) === this) this.#shared.delete(this.#key);
  }

  /** Implements {@linkcode AcquisitionListener}. */
  onQueued(info: WaitInfo): void {
    this.#answer({ kind: "queued", info });
  }

  /** Implements {@linkcode AcquisitionListener}. */
  onLeaseEnd(): void {
    this.remove();
  }

  /** Makes the acquisition ask, and waits for the answer. */
  #next(): Promise<JoinAnswer> {
    if (this.#isSettled) return Promise.resolve({ kind: "settled", lease: this.lease });
    this.#nextAnswer ??= Promise.withResolvers();
    this.#acquisition.onAskDue();
    return this.#nextAnswer.promise;
  }

  #settle(): void {
    this.#isSettled = true;
    this.#settled.resolve(this.lease);
    this.#answer({ kind: "settled", lease: this.lease });
  }

  #answer(answer: JoinAnswer): void {
    this.#nextAnswer?.resolve(answer);
    this.#nextAnswer = null;
  }
}
