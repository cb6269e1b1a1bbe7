/**
 * Calls for the same lock with the same `ownerId` share one acquisition and its lease. Calls without
 * an `ownerId` do not come here.
 *
 * @module
 */
import { abortable } from "../core/abort.ts";
import type { ManagedLease } from "../core/lease.ts";
import { Acquisition, type AcquisitionListener, type AcquisitionRequest } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";

/** The shared acquisitions of one `RedisLock`, by lock and owner id. */
export class SharedAcquisitions {
  readonly #context: CallContext;
  readonly #shared = new Map<string, SharedAcquisition>();

  constructor(context: CallContext) {
    this.#context = context;
  }

  /**
   * Joins the acquisition of the same lock and owner id, or its lease; starts one if there is none.
   * Resolves with `null` if this call does not wait, and the lock is not to be had now.
   *
   * @param signal Aborts when the call ends: the caller's signal, and disposal.
   */
  async join(request: AcquisitionRequest, signal: AbortSignal): Promise<ManagedLease | null> {
    const key = JSON.stringify([request.name, request.owner.ownerId]);
    for (;;) {
      const shared = this.#shared.get(key);
      if (shared === undefined) {
        return await new SharedAcquisition(this.#shared, key).start(this.#context, request);
      }
      const lease = await abortable(shared.lease(request.mode.kind === "wait"), signal);
      if (lease === "queued") return null; // this call must not wait
      if (lease !== null && lease.remainingMs > 0) return lease;
      shared.remove();
    }
  }
}

/** One acquisition that several calls share. */
class SharedAcquisition implements AcquisitionListener {
  readonly #shared: Map<string, SharedAcquisition>;
  readonly #key: string;
  readonly #queued = Promise.withResolvers<"queued">();
  #lease: Promise<ManagedLease | null> = Promise.resolve(null);
  #isSettled = false;

  constructor(shared: Map<string, SharedAcquisition>, key: string) {
    this.#shared = shared;
    this.#key = key;
  }

  /** Runs the acquisition. Other calls can join until it ends without a lease, or its lease ends. */
  async start(context: CallContext, request: AcquisitionRequest): Promise<ManagedLease | null> {
    this.#shared.set(this.#key, this);
    this.#lease = new Acquisition(context, request, this).run();
    let lease: ManagedLease | null = null;
    try {
      return lease = await this.#lease;
    } finally {
      this.#isSettled = true;
      if (lease === null) this.remove();
    }
  }

  /**
   * The lease; `null` if the acquisition ends without one. Unless `waits`, resolves with `"queued"` as
   * soon as the acquisition waits in the queue.
   */
  lease(waits: boolean): Promise<ManagedLease | null | "queued"> {
    const lease = this.#lease.catch(() => null);
    return waits || this.#isSettled ? lease : Promise.race([lease, this.#queued.promise]);
  }

  /** Makes later calls start over. Does nothing if a later acquisition has replaced this one. */
  remove(): void {
    if (this.#shared.get(this.#key) === this) this.#shared.delete(this.#key);
  }

  /** Implements {@linkcode AcquisitionListener}. */
  onQueued(): void {
    this.#queued.resolve("queued");
  }

  /** Implements {@linkcode AcquisitionListener}. */
  onLeaseEnd(): void {
    this.remove();
  }
}
