/**
 * One acquisition, and its lease, that several calls with the same `ownerId` share. Which calls share it is
 * decided in `shared_acquisitions.ts`.
 *
 * @module
 */
import { abortable, instant } from "../core/time/clock.ts";
import type { WaitInfo } from "../core/contract/distributed_lock.ts";
import type { ManagedLease } from "../core/lease/lease.ts";
import { Acquisition, type AcquisitionListener, type AcquisitionRequest } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";
import type { OwnerIds } from "./owner_ids.ts";
import { repeated } from "./repeated.ts";

/** The answer to a call that has joined an acquisition. */
type JoinAnswer =
  | { readonly kind: "queued"; readonly info: WaitInfo }
  | { readonly kind: "settled"; readonly lease: ManagedLease | null };

/** One acquisition that several calls share. */
export class SharedAcquisition implements AcquisitionListener {
  /** The lease, once there is one. */
  lease: ManagedLease | null = null;
  readonly #ids: OwnerIds<SharedAcquisition>;
  readonly #key: string;
  readonly #context: CallContext;
  readonly #acquisition: Acquisition;
  /** Resolves when the acquisition has ended, with its lease or `null`. */
  readonly #settled = Promise.withResolvers<ManagedLease | null>();
  #isSettled = false;
  /** Resolves with the answer to the next ask; `null` if no call waits for it. */
  #nextAnswer: PromiseWithResolvers<JoinAnswer> | null = null;

  constructor(
    ids: OwnerIds<SharedAcquisition>,
    key: string,
    context: CallContext,
    request: AcquisitionRequest,
  ) {
    this.#ids = ids;
    this.#key = key;
    this.#context = context;
    this.#acquisition = new Acquisition(context, request, this);
  }

  /** Runs the acquisition. Other calls can join until it ends without a lease, or its lease ends. */
  async start(): Promise<ManagedLease | null> {
    this.#ids.set(this.#key, this);
    try {
      return this.lease = await this.#acquisition.run();
    } finally {
      if (this.lease === null) this.remove();
      this.#settle();
    }
  }

  /** Runs the acquisition. If it gets a lease, other calls join this one instead of `earlier`. */
  async replace(earlier: SharedAcquisition | undefined): Promise<ManagedLease | null> {
    try {
      this.lease = await this.#acquisition.run();
    } finally {
      if (this.lease === null) this.remove();
      this.#settle();
    }
    if (this.lease === null || this.lease.remainingMs === 0) return this.lease;
    this.#ids.set(this.#key, this);
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

  /** Makes later calls start over, when Redis executes nothing of this acquisition any more. */
  remove(): void {
    this.#ids.remove(this.#key, this);
  }

  /** Whether an ask may be under way, or may be sent. */
  get mayAsk(): boolean {
    return this.lease === null || this.isUnsettled;
  }

  /** Whether Redis may still execute an ask or a clean-up of this acquisition. */
  get isUnsettled(): boolean {
    return this.#acquisition.isUnsettled;
  }

  /** Resolves when Redis executes neither any more. */
  settled(): Promise<void> {
    return this.#acquisition.settled();
  }

  /**
   * Waits until Redis executes nothing of the earlier acquisition any more, and then resolves with
   * whether this one still holds the lock. If the call ends before, nobody gets its lease.
   */
  async outlasts(
    earlier: SharedAcquisition,
    request: AcquisitionRequest,
    signal: AbortSignal,
  ): Promise<boolean> {
    try {
      await abortable(earlier.settled(), signal);
      return await this.verify(request, signal);
    } catch (error) {
      this.keepLock(); // as after any attach that ends without a lease
      this.lease?.lose("unreachable", error);
      throw error;
    }
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
