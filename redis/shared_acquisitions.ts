/**
 * Calls for the same lock with the same `ownerId` share one acquisition and its lease. Calls without
 * an `ownerId` do not come here.
 *
 * @module
 */
import type { ManagedLease } from "../core/lease/lease.ts";
import type { AcquisitionRequest } from "./acquisition.ts";
import type { CallContext } from "./hold.ts";
import { OwnerIds } from "./owner_ids.ts";
import { makeOwner } from "./protocol/owner_value.ts";
import { repeated } from "./repeated.ts";
import { SharedAcquisition } from "./shared_acquisition.ts";

/** The shared acquisitions of one `RedisLock`, by lock and owner id. */
export class SharedAcquisitions {
  readonly #context: CallContext;
  readonly #ids = new OwnerIds<SharedAcquisition>();

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
      const busy = this.#ids.busy(key);
      const shared = this.#ids.current(key);
      if (busy !== undefined) {
        await repeated(request.budget, signal, () => busy);
      } else if (isTaking(request, shared)) {
        return await this.#ids.occupy(key, this.#take(key, shared, request, signal));
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
    return new SharedAcquisition(this.#ids, key, this.#context, request);
  }

  /**
   * Gets the lock apart from the earlier acquisition, which ends if this succeeds. An ask of the earlier
   * one that is under way may then take the lock back: if so, gets the lock once more.
   */
  async #take(
    key: string,
    earlier: SharedAcquisition | undefined,
    request: AcquisitionRequest,
    signal: AbortSignal,
  ): Promise<ManagedLease | null> {
    earlier?.keepLock();
    const rival = earlier?.mayAsk ? earlier : undefined;
    const taker = this.#open(key, request);
    const lease = await taker.replace(earlier);
    // The owner id does not hold the lock, so neither does its earlier lease.
    if (lease === null) await earlier?.verify(request, signal);
    if (lease === null || rival === undefined) return lease;
    if (await taker.outlasts(rival, request, signal)) return lease;
    const again = { ...request, owner: makeOwner(request.owner.ownerId) };
    return await this.#take(key, undefined, again, signal);
  }
}

/** Whether a call makes a lease of its own, beside the acquisition that its owner id has. */
function isTaking({ mode }: AcquisitionRequest, shared: SharedAcquisition | undefined): boolean {
  return mode.kind === "attach" ||
    (mode.kind === "steal" && shared !== undefined && shared.lease === null);
}
