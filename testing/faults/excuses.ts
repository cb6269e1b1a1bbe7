/**
 * Decides which findings a fault excuses. An excuse hides a violation, so each one is narrow.
 *
 * @module
 */
import type { Call } from "./calls.ts";
import type { FaultEvent, History, WorkerEvent } from "./history.ts";

/** A grant is recorded at most this long, in µs, after the server made it. */
const RECORDED_WITHIN_US = 250_000;
/**
 * How long after a fault is healed, in µs, waiters that it hit may still be missing from the queue. All
 * of them ask again within 2 s; if the queue itself was lost, the second ask restores their places.
 */
const RECOVERY_US = 5_000_000;
/** How long a command of a call that has ended may be under way, in µs. */
const UNDER_WAY_US = 2_000_000;

const endOf = ({ atUs, untilUs }: FaultEvent): number => untilUs ?? atUs;

/** The faults of a run, sorted by time: those of the nemesis, and blocked event loops of workers. */
export function faultsOf({ faults, events }: History): FaultEvent[] {
  const blocks = events.flatMap(({ worker, atUs, blockedUs = 0 }): FaultEvent[] => {
    if (blockedUs === 0) return [];
    const span = { atUs: atUs - blockedUs, untilUs: atUs };
    return [{ ...span, fault: "block", target: worker, destructive: false }];
  });
  return [...faults, ...blocks].sort((a, b) => a.atUs - b.atUs);
}

/** Steals, as faults: the robbed holder may learn of it only after later holders were granted. */
export function stealsOf(calls: readonly Call[]): FaultEvent[] {
  return calls.filter(({ steals }) => steals).map(({ name, invokeUs, ...call }) => {
    const untilUs = Math.min(call.grantedUs, call.failedUs, call.events.at(-1)!.atUs);
    return { atUs: invokeUs, untilUs, fault: "steal", target: name, destructive: true };
  });
}

/** A fault between two grants that may have made the server grant both, if there is one. */
export function betweenGrants(
  faults: readonly FaultEvent[],
  earlier: Call,
  later: Call,
): FaultEvent | undefined {
  const fromUs = Math.max(earlier.invokeUs, earlier.grantedUs - RECORDED_WITHIN_US);
  return faults.findLast((fault) => fault.atUs <= later.grantedUs && endOf(fault) >= fromUs);
}

/**
 * The fault that excuses an overlap of two leases: the server may have lost the earlier lease, or it was
 * stolen. In addition, the resource must have refused the loser's writes after the winner's first.
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
 * The time since which the server has promised the lock to both, judged by the last renewal of each
 * while both were valid. A loss of data before that excuses nothing.
 */
function promisedToBothUs(loser: Call, winner: Call): number {
  const untilUs = Math.min(loser.endUs, winner.endUs);
  const lastOf = ({ promises }: Call) =>
    promises.findLast(({ atUs }) => atUs <= untilUs)?.sinceUs ?? -Infinity;
  // The loser was renewed although the winner (perhaps a thief) was already known.
  if (lastOf(loser) > winner.grantedUs) return winner.grantedUs + 1;
  return Math.min(lastOf(loser), lastOf(winner));
}

/**
 * The takeover that excuses an overlap, or a smaller token: another instance asked for the lock under the
 * loser's owner id, and the loser learns of it at its next renewal. The winner is that call, or came after
 * it. Within an instance the earlier lease is lost at once.
 */
export function takeoverExcuse(
  takeovers: readonly Call[],
  earlier: Call,
  later: Call,
): FaultEvent | undefined {
  const isInOrder = (earlier.token ?? 0n) <= (later.token ?? 0n);
  const [loser, winner] = isInOrder ? [earlier, later] : [later, earlier];
  if (loser.owner === null || hasWrittenLate(loser, winner)) return undefined;
  const taker = takeovers.findLast((call) => hasTakenOver(call, loser, winner));
  if (taker === undefined) return undefined;
  const { invokeUs: atUs, name: target } = taker;
  return { atUs, untilUs: takenUs(taker), fault: "takeover", target, destructive: true };
}

/** Whether a call may have taken the lock from the loser before it was granted to the winner. */
function hasTakenOver(call: Call, loser: Call, winner: Call): boolean {
  if (call.owner !== loser.owner || call.instance === loser.instance) return false;
  // Another owner held the lock when the server answered, or the call was refused before it asked. Any
  // other failed call may have had it.
  const hadNothing = ({ kind, reason }: WorkerEvent) =>
    kind === "failed" && (reason === "held" || reason === "refused");
  if (call.events.some(hadNothing)) return false;
  if (call.invokeUs > winner.grantedUs || takenUs(call) < loser.invokeUs) return false;
  const renewedUs = loser.promises.findLast(({ atUs }) => atUs <= loser.endUs)?.sinceUs ??
    -Infinity;
  if (renewedUs > takenUs(call)) return false;
  const { token } = call;
  if (token === null || loser.token === null || winner.token === null) return token === null;
  return token > loser.token && token <= winner.token;
}

/** When the server has executed a call at the latest: one that got no lease may still be under way. */
function takenUs({ grantedUs, events }: Call): number {
  return grantedUs < Infinity ? grantedUs : events.at(-1)!.atUs + UNDER_WAY_US;
}

/** Whether the resource accepted a write of the loser after the winner's first write. */
function hasWrittenLate(loser: Call, winner: Call): boolean {
  const wonUs = winner.events.find(({ kind }) => kind === "wrote")?.atUs ?? Infinity;
  const sentUs = ({ sentUs, atUs }: WorkerEvent) => sentUs ?? atUs;
  return loser.events.some((event) => event.kind === "wrote" && sentUs(event) > wonUs);
}

/**
 * The fault that excuses a smaller token that becomes known after a greater one. The lease was granted
 * first and lost at once, to a thief or with the server's data; its holder learned of the grant only
 * after the next grant was known. It must have been requested before that, and must write nothing.
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

/** The faults that may have parked the waiters of a worker. */
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
 * The fault that excuses an inversion (`later` was called while `waiter` was in the queue, but was
 * granted first): the waiter was parked at that grant, or until `later` had joined the queue.
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

/** The fault that excuses a long wait. */
export function waitExcuse(
  parking: readonly FaultEvent[],
  { invokeUs }: Call,
  endUs: number,
): FaultEvent | undefined {
  return parking.findLast((fault) => fault.atUs <= endUs && endOf(fault) + RECOVERY_US >= invokeUs);
}
