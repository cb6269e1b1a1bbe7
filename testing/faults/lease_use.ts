/**
 * How a worker uses a lease: it writes, renews, waits, blocks or crashes, and records what it sees.
 *
 * @module
 */
// Paces a workload: a worker holds its lease for a random time, and looks at it.
import process from "node:process";
import { type Lease, LeaseLostError } from "../../mod.ts";
import { block } from "../conformance/bounds.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { pause } from "../servers/wait.ts";
import { deadlineUsOf, type Tell } from "./recorder.ts";
import type { Play, Work } from "./work.ts";

/** How often in ms a holder checks whether a renewal has moved its deadline. */
const LOOK_MS = 100;
/** A holder may take this long in ms to stop after a disposal: longer than the lock is kept for it. */
const STOPS_WITHIN_MS = 1_500;

/** Uses the lease, as drawn from the habits. */
export async function use(work: Work, lease: Lease, call: Omit<Play, "ask">): Promise<void> {
  const { random, does, ttlMs } = work;
  const { tell: tellAll, holdMs: givenMs } = call;
  let isLost = false;
  const tell: Tell = (event) => {
    if (event.kind === "lost" && isLost) return;
    isLost ||= event.kind === "lost";
    tellAll(event);
  };
  const tellLost = () => tell({ kind: "lost", reason: lossOf(lease) });
  lease.signal.addEventListener("abort", tellLost);
  try {
    if (lease.signal.aborted) tellLost();
    // Written without a check: the resource must refuse writes that come too late.
    write(work, lease, tell);
    if (does("crashes")) process.kill(process.pid, "SIGKILL");
    if (does("blocks")) block(random() * ttlMs * 1.5);
    if (does("renews")) await renew(work, lease, tell);
    const holdMs = givenMs ?? (does("holds") ? random() ** 3 * 50 : 0);
    if (holdMs > 0) await hold(lease, holdMs, tell);
    if (isProven(lease, tell)) write(work, lease, tell);
    const isDisposed = lease.signal.aborted && lossOf(lease) === "disposed";
    if (isDisposed && random() < 0.5) await pause(random() * STOPS_WITHIN_MS);
  } finally {
    lease.signal.removeEventListener("abort", tellLost);
  }
}

function lossOf({ signal }: Lease): string {
  return (signal.reason as LeaseLostError).reason;
}

/** Writes to the resource, whether the lease is valid or not. A shared lease only reads, and raises no fence. */
export function write({ store, worker }: Work, lease: Lease, tell: Tell): void {
  if (lease.mode === "shared") return;
  const sentUs = nowUs();
  const isTaken = store.write(lease.name, worker, lease.fencingToken);
  tell({ kind: isTaken ? "wrote" : "refused", token: String(lease.fencingToken), sentUs });
}

function isProven(lease: Lease, tell: Tell): boolean {
  try {
    lease.throwIfLost();
    return true;
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    // If the signal has not aborted, the lease is only unproven and may still be valid.
    if (lease.signal.aborted) tell({ kind: "lost", reason: error.reason });
    return false;
  }
}

async function renew(work: Work, lease: Lease, tell: Tell): Promise<void> {
  const { random, ttlMs: usualMs } = work;
  const ttlMs = random() < 0.3 ? Math.round(usualMs * (0.5 + random() * 1.5)) : undefined;
  try {
    await lease.renew(ttlMs);
    const deadlineUs = deadlineUsOf(lease);
    const ttl = ttlMs === undefined ? {} : { ttlUs: ttlMs * 1_000 };
    if (lease.remainingMs > 0) tell({ kind: "renewed", deadlineUs, ...ttl });
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    tell({ kind: "lost", reason: error.reason });
  }
}

/** Waits, and records how renewals move the deadline. */
async function hold(lease: Lease, holdMs: number, tell: Tell): Promise<void> {
  let knownUs = deadlineUsOf(lease);
  for (const endUs = nowUs() + holdMs * 1_000; nowUs() < endUs && !lease.signal.aborted;) {
    await pause(Math.min(LOOK_MS, Math.max(0, endUs - nowUs()) / 1_000), lease.signal);
    const deadlineUs = deadlineUsOf(lease);
    if (deadlineUs > knownUs + 1_000 && lease.remainingMs > 0) {
      tell({ kind: "renewed", deadlineUs });
      knownUs = deadlineUs;
    }
  }
}
