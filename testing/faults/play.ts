/**
 * How one call of a worker is made, recorded and ended. Which calls are made is in `recording_worker.ts`.
 *
 * @module
 */
// Paces a workload: a worker that is refused rests before its next call.
import { type Lease, LockError } from "../../mod.ts";
import { pause } from "../servers/wait.ts";
import { use } from "./lease_use.ts";
import type { Manager } from "./managers.ts";
import { deadlineUsOf, hashOf, type Tell } from "./recorder.ts";
import type { Play, Work } from "./work.ts";

/** The pause in ms after a call that failed, for example because the service is out of reach. */
const REFUSED_PAUSE_MS = 20;

/** Makes the call, uses its lease and releases it. */
export async function play(work: Work, call: Play): Promise<Lease | null> {
  const { manager, tell, signal, outlives = false } = call;
  let lease: Lease | null;
  try {
    lease = await call.ask();
  } catch (error) {
    await fail(error, manager, signal, tell);
    return null;
  }
  if (lease === null) {
    tell({ kind: "failed", reason: "held" });
    return null;
  }
  tellGranted(lease, tell, outlives);
  await use(work, lease, call);
  tell({ kind: "releasing" });
  await lease.release();
  tell({ kind: "released" });
  return lease;
}

/** Records the first `onWait()`. */
export function onWait(tell: Tell): (info: { position?: number }) => void {
  let isQueued = false;
  return ({ position }) => {
    if (!isQueued) tell({ kind: "queued", ...position !== undefined && { position } });
    isQueued = true;
  };
}

/** Records a grant. */
export function tellGranted(lease: Lease, tell: Tell, outlives: boolean): void {
  const deadlineUs = deadlineUsOf(lease);
  tell({
    kind: "granted",
    token: String(lease.fencingToken),
    deadlineUs,
    owner: hashOf(lease.ownerId),
    ...outlives && { outlives },
  });
}

/** Records a call that rejected. Throws if it had no right to. */
export async function fail(
  error: unknown,
  { isDisposed }: Manager,
  signal: AbortSignal | undefined,
  tell: Tell,
): Promise<void> {
  if (signal?.aborted && error === signal.reason) {
    return tell({ kind: "failed", reason: "aborted" });
  }
  if (isDisposed && error instanceof DOMException && error.name === "AbortError") {
    return tell({ kind: "failed", reason: "disposed" });
  }
  // Any other error is a bug and ends the process.
  if (!(error instanceof LockError)) throw error;
  // A call under an owner id that asks already has sent nothing. One that an attach has ended may have.
  const isRefused = error.code === "ERR_LOCK" && !error.message.includes("attach()");
  tell({ kind: "failed", reason: isRefused ? "refused" : error.name });
  await pause(REFUSED_PAUSE_MS);
}
