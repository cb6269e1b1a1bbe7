/**
 * The checks of leases and tokens: overlaps, early grants, the order of tokens, stale writes.
 *
 * @module
 */
import type { Call, Lease } from "./calls.ts";
import { betweenGrants, lateNewsExcuse, overlapExcuse, takeoverExcuse } from "./excuses.ts";
import { file, type Report } from "./findings.ts";
import type { FaultEvent, WorkerEvent } from "./history.ts";

/** The ways in which a lease can be lost, and its holder learn of it late. */
export interface Losses {
  /** Faults, and steals. */
  readonly faults: readonly FaultEvent[];
  /** The calls whose callers chose the owner id: each may take over what another instance holds. */
  readonly takeovers: readonly Call[];
}

/** A grant is compared with at most this many open leases: those that end last. */
const COMPARED = 8;

/** Names a lease in messages. */
function nameOf({ worker, token, events }: Call): string {
  return `${worker}'s lease ${token ?? `of call ${events[0]!.call}`}`;
}

/** The events of calls, sorted by time. */
function eventsOf(...calls: readonly Call[]): WorkerEvent[] {
  return calls.flatMap(({ events }) => events).sort((a, b) => a.atUs - b.atUs);
}

/**
 * Checks that no two leases overlap and that no grant precedes the deadline of the previous lease, unless both
 * are shared, and that no more shared leases overlap than their limit allows.
 */
export function checkSpans(
  leases: readonly Call[],
  losses: Losses,
  report: Report,
): void {
  const inOrder = leases.toSorted((a, b) => a.grantedUs - b.grantedUs || compareTokens(a, b));
  let [exclusive, shared]: [Call[], Call[]] = [[], []];
  for (const later of inOrder) {
    const isOpen = ({ endUs }: Call) => endUs > later.grantedUs;
    [exclusive, shared] = [exclusive.filter(isOpen), shared.filter(isOpen)];
    for (const earlier of later.isShared ? exclusive : [...exclusive, ...shared]) {
      if (!isOldNews(earlier, later)) fileOverlap(earlier, later, losses, report);
    }
    if (later.isShared) checkLimit(shared, later, losses, report);
    if (!isOpen(later)) continue;
    const open = later.isShared ? shared : exclusive;
    open.push(later);
    // So many shared leases are compared as their limit needs.
    const compared = Math.max(COMPARED, later.limit === Infinity ? 0 : 2 * later.limit);
    if (open.length > compared) open.sort((a, b) => b.endUs - a.endUs).pop();
  }
}

/** Checks that the open shared leases leave room for a later one. */
function checkLimit(open: readonly Call[], later: Call, losses: Losses, report: Report): void {
  const beside = open.filter((earlier) => !isOldNews(earlier, later));
  if (beside.length < later.limit) return;
  // The excuse of one is enough: that one was not a holder any more.
  const excused = beside.filter((earlier) => {
    const { faults, takeovers } = losses;
    return overlapExcuse(faults, earlier, later) ?? takeoverExcuse(takeovers, earlier, later);
  });
  if (beside.length - excused.length >= later.limit) {
    const { name, grantedUs: atUs, limit } = later;
    const message = `${nameOf(later)} is one of ${
      beside.length + 1
    } holders: the limit is ${limit}`;
    const events = eventsOf(...beside, later);
    report.violations.add({ kind: "overlap", atUs, name, message, events });
  } else fileOverlap(excused[0]!, later, losses, report);
}

/** Whether `later` was granted first, as its smaller token says, and had expired before it was known. */
function isOldNews(earlier: Call, later: Call): boolean {
  return later.endUs <= later.grantedUs && later.invokeUs <= earlier.grantedUs &&
    compareTokens(later, earlier) < 0;
}

function fileOverlap(
  earlier: Call,
  later: Call,
  { faults, takeovers }: Losses,
  report: Report,
): void {
  const { name, grantedUs: atUs } = later;
  const isOverlap = later.useEndUs > atUs && earlier.useEndUs > atUs;
  const forUs = Math.min(earlier.useEndUs, later.useEndUs) - atUs;
  const message = isOverlap
    ? `${nameOf(later)} overlaps ${nameOf(earlier)} for ${forUs} µs`
    : `${nameOf(later)} was granted ${earlier.endUs - atUs} µs before the end of ${
      nameOf(earlier)
    }`;
  const kind = isOverlap ? "overlap" : "early-grant";
  const violation = { kind, atUs, name, message, events: eventsOf(earlier, later) } as const;
  const excuse = overlapExcuse(faults, earlier, later) ?? takeoverExcuse(takeovers, earlier, later);
  file(report, violation, excuse);
}

function compareTokens(a: Call, b: Call): number {
  return compareNumbers(a.token ?? 0n, b.token ?? 0n);
}

/**
 * Checks that tokens grow in the order of grants, where events prove that order: one grant was known
 * before the other was requested, or one lease had ended before the other, still valid, was granted.
 */
export function checkTokens(
  leases: readonly Lease[],
  { faults, takeovers }: Losses,
  report: Report,
): void {
  const mayRepeat = faults.filter(({ tokensMayRepeat }) => tokensMayRepeat);
  const known = new Map<bigint, Lease>();
  const bad = new Map<Lease, Lease>();
  for (const lease of leases) {
    const other = known.get(lease.token);
    if (other && !(other.isShared && lease.isShared)) bad.set(lease, other);
    known.set(lease.token, lease);
  }
  const good = leases.filter(({ grantedUs, endUs }) => endUs > grantedUs);
  const grantedUs = (lease: Lease) => lease.grantedUs;
  findGreater(leases, grantedUs, leases, ({ invokeUs }) => invokeUs - 1, bad);
  // Shared leases that are granted the lock together learn of it in any order.
  const [shared, exclusive] = [leases.filter(isShared), leases.filter((each) => !isShared(each))];
  const endUs = (lease: Lease) => lease.endUs;
  findGreater(exclusive, endUs, good, grantedUs, bad);
  findGreater(shared, endUs, good.filter((each) => !isShared(each)), grantedUs, bad);
  for (const [later, earlier] of bad) {
    const { name, grantedUs: atUs } = later;
    const message = `${nameOf(later)} was granted after ${nameOf(earlier)}`;
    const events = eventsOf(earlier, later);
    const excuse = betweenGrants(mayRepeat, earlier, later) ??
      lateNewsExcuse(faults, later, earlier) ?? takeoverExcuse(takeovers, earlier, later);
    file(report, { kind: "token-order", atUs, name, message, events }, excuse);
  }
}

function isShared(call: Call): boolean {
  return call.isShared;
}

/** For each lease, finds an earlier one whose token is not smaller, or if both are shared a greater one. */
function findGreater(
  earlier: readonly Lease[],
  isOverUs: (lease: Lease) => number,
  later: readonly Lease[],
  beginsUs: (lease: Lease) => number,
  found: Map<Lease, Lease>,
): void {
  const before = earlier.toSorted((a, b) => compareNumbers(isOverUs(a), isOverUs(b)));
  let next = 0;
  let greatest: Lease | undefined;
  for (const lease of later.toSorted((a, b) => beginsUs(a) - beginsUs(b))) {
    for (; next < before.length && isOverUs(before[next]!) <= beginsUs(lease); next++) {
      const lease = before[next]!;
      const isGreater = greatest === undefined || lease.token > greatest.token ||
        (lease.token === greatest.token && greatest.isShared); // an exclusive one allows less
      if (isGreater) greatest = lease;
    }
    if (greatest === undefined) continue;
    // Shared leases may have the same token.
    const mayBeEqual = greatest.isShared && lease.isShared;
    if (mayBeEqual ? greatest.token > lease.token : greatest.token >= lease.token) {
      found.set(lease, greatest);
    }
  }
}

/** Compares numbers that may be infinite, or bigints. */
function compareNumbers<T extends number | bigint>(a: T, b: T): number {
  return a < b ? -1 : Number(a > b);
}

/** Checks that the resource accepts no write that was sent after one with a greater token was answered. */
export function checkWrites(leases: readonly Lease[], report: Report): void {
  const writes = leases.flatMap((lease) =>
    lease.events.filter(({ kind }) => kind === "wrote").map((event) => ({ lease, event }))
  );
  const sentUs = ({ event }: typeof writes[number]) => event.sentUs ?? event.atUs;
  const answered = writes.toSorted((a, b) => a.event.atUs - b.event.atUs);
  let next = 0;
  let greatest: Lease | undefined;
  for (const write of writes.toSorted((a, b) => sentUs(a) - sentUs(b))) {
    for (; next < answered.length && answered[next]!.event.atUs < sentUs(write); next++) {
      const { lease } = answered[next]!;
      if (greatest === undefined || lease.token > greatest.token) greatest = lease;
    }
    if (greatest === undefined || greatest.token <= write.lease.token) continue;
    const { name } = write.lease;
    const message = `A write with ${nameOf(write.lease)} was taken after one with ${
      nameOf(greatest)
    }`;
    const events = eventsOf(greatest, write.lease);
    report.violations.add({ kind: "stale-write", atUs: write.event.atUs, name, message, events });
  }
}
