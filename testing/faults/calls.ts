/**
 * Turns the events of a recorded run into calls: when each was made, granted and ended.
 *
 * @module
 */
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** One `acquire()` and its lease. Times in µs; `Infinity` stands for what did not happen. */
export interface Call {
  readonly worker: string;
  readonly name: string;
  /** Sorted by time. */
  readonly events: readonly WorkerEvent[];
  readonly invokeUs: number;
  /** When `onWait` was first called. */
  readonly queuedUs: number;
  readonly grantedUs: number;
  readonly failedUs: number;
  /** Null without a lease, or if the strategy has no tokens. */
  readonly token: bigint | null;
  /**
   * Until when the lease can be used: its release, its loss as seen by the worker, or its last recorded
   * deadline. If the process died: its last event at the latest.
   */
  readonly useEndUs: number;
  /** The same, except that a crash does not end it: the service must respect the lease of a dead process. */
  readonly endUs: number;
  /** Its grant and renewals: when each was known, and the earliest time of its request. */
  readonly promises: readonly { readonly atUs: number; readonly sinceUs: number }[];
  readonly steals: boolean;
  /** Whether its process died during the call. */
  readonly isCrashed: boolean;
  /** If so, the time of the last event of that process. */
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
  // JSON turns an infinite deadline into `null`.
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
    // Without a TTL, the lease ends with its process.
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

/** The incarnations that died, each with the time of its last event. */
function crashedIn(
  { faults, crashed }: History,
  heardOfUs: ReadonlyMap<string, number>,
): Map<string, number> {
  // Without a list of crashed workers: those that were killed and have no later events.
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

/** Whether a kill can have ended a worker whose last event was at `lastUs`. */
function isEndOf({ target, atUs, untilUs }: FaultEvent, worker: string, lastUs: number): boolean {
  const isHit = target === worker || target === worker.split(".")[0];
  return isHit && lastUs <= Math.max(atUs, untilUs ?? atUs) + 1_000_000;
}
