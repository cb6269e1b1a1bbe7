/**
 * What became of each call of a recorded run.
 *
 * @module
 */
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** One `acquire()`, and the lease that it got. Times in µs; `Infinity`: it did not happen. */
export interface Call {
  readonly worker: string;
  readonly name: string;
  /** In the order of their times. */
  readonly events: readonly WorkerEvent[];
  readonly invokeUs: number;
  /** When it was first told that it waits. */
  readonly queuedUs: number;
  readonly grantedUs: number;
  readonly failedUs: number;
  /** Null without a lease, or if the strategy has no tokens. */
  readonly token: bigint | null;
  /** Until when it can be used: released, lost by its own account, or its last recorded deadline; at the latest its process' last event. */
  readonly useEndUs: number;
  /** The same, but a crash does not end it: the service keeps its word to the dead. */
  readonly endUs: number;
  /** Its grant and renewals: when each was known, and when it was asked for at the earliest. */
  readonly promises: readonly { readonly atUs: number; readonly sinceUs: number }[];
  readonly steals: boolean;
  /** Whether its process ended while it was under way. */
  readonly isCrashed: boolean;
  /** If so, when that was last heard of. */
  readonly diedUs: number;
}

/** A call that got a lease. */
export type Lease = Call & { readonly token: bigint };

/** All calls of a run. */
export function callsOf(history: History): Call[] {
  const events = Map.groupBy(history.events, ({ call }) => call);
  const heardOfUs = new Map<string, number>();
  for (const { worker, atUs } of history.events) {
    heardOfUs.set(worker, Math.max(atUs, heardOfUs.get(worker) ?? -Infinity));
  }
  const crashed = crashedIn(history, heardOfUs);
  const { ttlUs = Infinity } = history;
  return Array.from(events.values(), (ofCall) => callOf(ofCall, crashed, ttlUs));
}

function callOf(
  unsorted: readonly WorkerEvent[],
  crashed: ReadonlyMap<string, number>,
  ttlUs: number,
): Call {
  const events = unsorted.toSorted((a, b) => a.atUs - b.atUs);
  const { worker, name } = events[0]!;
  const first = (kind: WorkerEvent["kind"]) => events.find((event) => event.kind === kind);
  const at = (kind: WorkerEvent["kind"]) => first(kind)?.atUs ?? Infinity;
  const granted = first("granted");
  const grantedUs = granted?.atUs ?? Infinity;
  const leftUs = Math.min(at("releasing"), at("lost"));
  // A deadline that is none is `null` in JSON.
  const deadlineUs = events.findLast(isDeadline)?.deadlineUs ?? Infinity;
  const lastUs = events.at(-1)!.atUs;
  const isOpen = granted ? at("released") === Infinity : at("failed") === Infinity;
  const isCrashed = isOpen && crashed.has(worker);
  const endUs = Math.min(leftUs, deadlineUs);
  return {
    ...{ worker, name, events, grantedUs, isCrashed },
    diedUs: isCrashed ? crashed.get(worker)! : Infinity,
    invokeUs: first("invoke")?.atUs ?? events[0]!.atUs,
    queuedUs: at("queued"),
    failedUs: at("failed"),
    token: granted?.token === undefined ? null : BigInt(granted.token),
    useEndUs: isCrashed ? Math.min(endUs, lastUs) : endUs,
    // Without a TTL the end of the process ends the lease.
    endUs: isCrashed && endUs === Infinity ? lastUs : endUs,
    promises: events.filter(isDeadline).map(({ atUs, deadlineUs }) => (
      { atUs, sinceUs: deadlineUs == null ? -Infinity : deadlineUs - ttlUs }
    )),
    steals: first("invoke")?.steals === true,
  };
}

function isDeadline({ kind }: WorkerEvent): boolean {
  return kind === "granted" || kind === "renewed";
}

/** The incarnations that did not come to their end, and when they were last heard of. */
function crashedIn(
  { faults, crashed }: History,
  heardOfUs: ReadonlyMap<string, number>,
): Map<string, number> {
  // Where nobody has kept count: who was hit and never heard of again.
  const kills = crashed ? [] : faults.filter(({ fault }) => /kill|crash/i.test(fault));
  return new Map(
    Array.from(heardOfUs).filter(([worker, us]) => {
      const [base, incarnation = "0"] = worker.split(".");
      const isSucceeded = heardOfUs.has(`${base}.${Number(incarnation) + 1}`);
      return isSucceeded || crashed?.includes(worker) ||
        kills.some((kill) => isEndOf(kill, worker, us));
    }),
  );
}

/** Whether a kill can have ended a worker that was last heard of at some time. */
function isEndOf({ target, atUs, untilUs }: FaultEvent, worker: string, lastUs: number): boolean {
  const isHit = target === worker || target === worker.split(".")[0];
  return isHit && lastUs <= Math.max(atUs, untilUs ?? atUs) + 1_000_000;
}
