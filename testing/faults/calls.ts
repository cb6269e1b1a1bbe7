/**
 * Turns the events of a recorded run into calls: when each was made, granted and ended.
 *
 * @module
 */
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** One `acquire()` and its lease. Times in µs; `Infinity` stands for what did not happen. */
export interface Call {
  readonly worker: string;
  /** The lock manager that it used: the worker and a number. */
  readonly instance: string;
  /** A hash of the owner id that its caller chose; null if it chose none. */
  readonly owner: string | null;
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
  /**
   * Until when the service must respect the lease. The same, except that a crash does not end it, and that
   * the lock is kept for a while after a disposal.
   */
  readonly endUs: number;
  /** Its grant and renewals: when each was known, and the earliest time of its request. */
  readonly promises: readonly { readonly atUs: number; readonly sinceUs: number }[];
  readonly steals: boolean;
  readonly isShared: boolean;
  /** How many shared holders it allows, itself included. All shared calls of a name have the same limit. */
  readonly limit: number;
  /** Whether its process died during the call. */
  readonly isCrashed: boolean;
  /** If so, the time of the last event of that process. */
  readonly diedUs: number;
}

/** A call that got a lease. */
export type Lease = Call & { readonly token: bigint };

/** All calls of a run. */
export function callsOf(history: History): Call[] {
  const context = contextOf(history);
  const ofCalls = history.events.filter(({ kind }) => kind !== "disposing" && kind !== "disposed");
  const events = Map.groupBy(ofCalls, ({ call }) => call);
  return Array.from(events.values(), (ofCall) => callOf(ofCall, context));
}

/** The parts of a history that all calls need. */
interface Context {
  readonly crashed: ReadonlyMap<string, number>;
  readonly ttlUs: number;
  /** The longest TTL. Who takes a lease over, under an owner id of its own choice, keeps what it had left. */
  readonly longestUs: number;
  readonly keptUs: number;
}

function contextOf(history: History): Context {
  const heardOfUs = new Map<string, number>();
  const { events, ttlUs = Infinity, keptUs = 0 } = history;
  let longestUs = ttlUs;
  for (const { worker, atUs, ttlUs = 0 } of events) {
    heardOfUs.set(worker, Math.max(atUs, heardOfUs.get(worker) ?? -Infinity));
    longestUs = Math.max(longestUs, ttlUs);
  }
  return { crashed: crashedIn(history, heardOfUs), ttlUs, longestUs, keptUs };
}

function callOf(unsorted: readonly WorkerEvent[], context: Context): Call {
  const events = unsorted.toSorted((a, b) => a.atUs - b.atUs);
  const { worker, name, instance = 0 } = events[0]!;
  const first = (kind: WorkerEvent["kind"]) => events.find((event) => event.kind === kind);
  const at = (kind: WorkerEvent["kind"]) => first(kind)?.atUs ?? Infinity;
  const granted = first("granted");
  const grantedUs = granted?.atUs ?? Infinity;
  const owner = first("invoke")?.owner ?? null;
  const isOpen = granted ? at("released") === Infinity : at("failed") === Infinity;
  const isCrashed = isOpen && context.crashed.has(worker);
  const lastUs = events.at(-1)!.atUs;
  const { useEndUs, endUs } = endsOf(events, context.keptUs);
  const ttlUs = events.reduce(
    (longest, { ttlUs = 0 }) => Math.max(longest, ttlUs),
    owner === null ? context.ttlUs : context.longestUs,
  );
  return {
    ...{ worker, name, events, grantedUs, isCrashed, owner },
    instance: `${worker}/${instance}`,
    diedUs: isCrashed ? context.crashed.get(worker)! : Infinity,
    invokeUs: first("invoke")?.atUs ?? events[0]!.atUs,
    queuedUs: at("queued"),
    failedUs: at("failed"),
    token: granted?.token === undefined ? null : BigInt(granted.token),
    useEndUs: isCrashed ? Math.min(useEndUs, lastUs) : useEndUs,
    // Without a TTL, the lease ends with its process.
    endUs: isCrashed && deadlineOf(events) === Infinity ? Math.min(endUs, lastUs) : endUs,
    promises: events.filter(isDeadline).map(({ atUs, deadlineUs }) => (
      { atUs, sinceUs: deadlineUs == null ? -Infinity : deadlineUs - ttlUs }
    )),
    steals: first("invoke")?.steals === true,
    isShared: first("invoke")?.mode === "shared",
    limit: first("invoke")?.limit ?? Infinity,
  };
}

/** Until when a lease can be used, and until when the service must respect it, if no process dies. */
function endsOf(
  events: readonly WorkerEvent[],
  keptUs: number,
): Pick<Call, "useEndUs" | "endUs"> {
  const first = (kind: WorkerEvent["kind"]) => events.find((event) => event.kind === kind);
  const lost = first("lost");
  const [lostUs, leavingUs] = [lost?.atUs ?? Infinity, first("releasing")?.atUs ?? Infinity];
  const deadlineUs = deadlineOf(events);
  const useEndUs = Math.min(lostUs, leavingUs, deadlineUs);
  if (lost?.reason !== "disposed" || useEndUs < lostUs) return { useEndUs, endUs: useEndUs };
  // The lock that outlives its lock manager is not released, whatever the holder does.
  const givenBackUs = first("granted")?.outlives ? Infinity : Math.min(leavingUs, lostUs + keptUs);
  return { useEndUs, endUs: Math.min(deadlineUs, givenBackUs) };
}

/** The latest deadline. */
function deadlineOf(events: readonly WorkerEvent[]): number {
  // JSON turns an infinite deadline into `null`.
  const all = events.filter(isDeadline).map(({ deadlineUs }) => deadlineUs ?? Infinity);
  return all.length === 0 ? Infinity : Math.max(...all);
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
