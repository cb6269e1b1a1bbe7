/**
 * Which faults excuse what.
 *
 * @module
 */
import type { Call } from "./calls.ts";
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** A grant is recorded later than the server makes it, by this much at most, in µs. */
const RECORDED_WITHIN_US = 250_000;
/**
 * How long after a fault is healed, in µs, the waiters that it hit may still be out of the line: all
 * ask again within 2 s, and those of a queue that was lost do so in the second round.
 */
const RECOVERY_US = 5_000_000;

const endOf = ({ atUs, untilUs }: FaultEvent): number => untilUs ?? atUs;

/** The faults of a run, by time: the nemesis', and workers that block their own event loops. */
export function faultsOf({ faults, events }: History): FaultEvent[] {
  const blocks = events.flatMap(({ worker, atUs, blockedUs = 0 }): FaultEvent[] => {
    if (blockedUs === 0) return [];
    const span = { atUs: atUs - blockedUs, untilUs: atUs };
    return [{ ...span, fault: "block", target: worker, destructive: false }];
  });
  return [...faults, ...blocks].sort((a, b) => a.atUs - b.atUs);
}

/** What thieves do to a lock: a holder learns of it later than the thief's successors are granted. */
export function stealsOf(calls: readonly Call[]): FaultEvent[] {
  return calls.filter(({ steals }) => steals).map(({ name, invokeUs, ...call }) => {
    const untilUs = Math.min(call.grantedUs, call.failedUs, call.events.at(-1)!.atUs);
    return { atUs: invokeUs, untilUs, fault: "steal", target: name, destructive: true };
  });
}

/** A fault between two grants after which the server may have granted both, if any. */
export function betweenGrants(
  faults: readonly FaultEvent[],
  earlier: Call,
  later: Call,
): FaultEvent | undefined {
  const fromUs = Math.max(earlier.invokeUs, earlier.grantedUs - RECORDED_WITHIN_US);
  return faults.findLast((fault) => fault.atUs <= later.grantedUs && endOf(fault) >= fromUs);
}

/**
 * What excuses an overlap of two leases: the server may have lost its promise to the earlier one, or
 * it was stolen from, and the resource took none of the loser's writes after the winner's first.
 */
export function overlapExcuse(
  faults: readonly FaultEvent[],
  earlier: Call,
  later: Call,
): FaultEvent | undefined {
  const isInOrder = (earlier.token ?? 0n) <= (later.token ?? 0n);
  const [loser, winner] = isInOrder ? [earlier, later] : [later, earlier];
  if (hasWrittenLate(loser, winner)) return undefined;
  const sinceUs = promisedToBothUs(loser, winner);
  const losses = faults.filter((fault) => fault.destructive && endOf(fault) >= sinceUs);
  return betweenGrants(losses, earlier, later) ??
    (isInOrder ? undefined : lateNewsExcuse(losses, loser, winner));
}

/**
 * From when on the server has promised the lock to both, by the last renewal of each while both were
 * good. What it lost before that excuses nothing.
 */
function promisedToBothUs(loser: Call, winner: Call): number {
  const untilUs = Math.min(loser.endUs, winner.endUs);
  const lastOf = ({ promises }: Call) =>
    promises.findLast(({ atUs }) => atUs <= untilUs)?.sinceUs ?? -Infinity;
  // The loser was renewed when the winner, a thief perhaps, was known already.
  if (lastOf(loser) > winner.grantedUs) return winner.grantedUs + 1;
  return Math.min(lastOf(loser), lastOf(winner));
}

/** Whether the resource took a write of the loser after the winner's first. */
function hasWrittenLate(loser: Call, winner: Call): boolean {
  const wonUs = winner.events.find(({ kind }) => kind === "wrote")?.atUs ?? Infinity;
  const sentUs = ({ sentUs, atUs }: WorkerEvent) => sentUs ?? atUs;
  return loser.events.some((event) => event.kind === "wrote" && sentUs(event) > wonUs);
}

/**
 * What excuses that a lease with a smaller token is known later than one with a greater token: it was
 * granted first and lost at once, to a thief or with the server's data, and the news of its grant came
 * when the next one was known already. It must have been asked for before that, and write nothing.
 */
export function lateNewsExcuse(
  faults: readonly FaultEvent[],
  loser: Call,
  winner: Call,
): FaultEvent | undefined {
  if (loser.invokeUs > winner.grantedUs || loser.token === winner.token) return undefined;
  if (hasWrittenLate(loser, winner)) return undefined;
  return faults.findLast((fault) =>
    fault.destructive && fault.atUs <= winner.grantedUs && endOf(fault) >= loser.invokeUs
  );
}

/** The faults that may have cost a worker's waiters their turn. */
export function parkingOf(
  faults: readonly FaultEvent[],
  worker: string,
): FaultEvent[] {
  const [base] = worker.split(".");
  return faults.filter(({ fault, target, parks }) => {
    if (!(parks ?? !/delay|script/i.test(fault))) return false;
    const workers = target.match(/\bw\d+(\.\d+)?\b/g); // a proxy may be named after its worker
    return workers === null || workers.some((named) => named === worker || named === base);
  });
}

/**
 * What excuses that `later`, called when `waiter` was in line, was granted before it: the waiter had
 * been parked when that happened, or until `later` had joined the line.
 */
export function inversionExcuse(
  parking: readonly FaultEvent[],
  waiter: Call,
  later: Call,
): FaultEvent | undefined {
  return parking.findLast((fault) =>
    fault.atUs <= later.grantedUs && endOf(fault) + RECOVERY_US >= later.invokeUs &&
    endOf(fault) + RECOVERY_US >= waiter.queuedUs
  );
}

/** What excuses that a call waited for long. */
export function waitExcuse(
  parking: readonly FaultEvent[],
  { invokeUs }: Call,
  endUs: number,
): FaultEvent | undefined {
  return parking.findLast((fault) => fault.atUs <= endUs && endOf(fault) + RECOVERY_US >= invokeUs);
}
