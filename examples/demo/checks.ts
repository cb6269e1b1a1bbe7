/**
 * Judges a finished run: did the lock exclude, and is the account correct? Pure functions, no I/O.
 *
 * @module
 */
import type { Account } from "../account.ts";
import { type Event, finishedRounds, type Hold, holdsOf, recoveryOf } from "./history.ts";
import { counted } from "./words.ts";

/** The record of a run under the lock. */
export interface Run {
  readonly workers: number;
  readonly rounds: number;
  /** Whether a worker was to be killed. */
  readonly kill: boolean;
  readonly events: readonly Event[];
  readonly account: Account;
  /** Failures of workers, in words. */
  readonly failures: readonly string[];
}

/** The record of a run without a lock. */
export interface Contrast {
  readonly rounds: number;
  readonly account: Account;
  /** Failures of workers, in words; lost updates are not failures. */
  readonly failures: readonly string[];
}

/** The outcome of one check. */
export interface Finding {
  readonly isGood: boolean;
  readonly text: string;
}

/** Judges the run under the lock. Without a lock, updates may be lost, but workers must not fail. */
export function check(run: Run, contrast: Contrast): Finding[] {
  const holds = holdsOf(run.events);
  return [
    ...checkBalance(run),
    checkOverlaps(holds),
    checkTokens(holds),
    ...run.kill ? [checkKill(run, holds)] : [],
    ...checkWorkers([...run.failures, ...contrast.failures]),
  ];
}

/**
 * How often a worker should have added 1. A killed worker did so in all rounds that it reported, and
 * perhaps in one more: it may die after it has written and before it reports. The account decides.
 */
export function expectedDeposits(run: Run, worker: number): number {
  const isKilled = run.events.some((event) => event.event === "killed" && event.worker === worker);
  if (!isKilled) return run.rounds;
  const finished = finishedRounds(run.events, worker);
  return run.account.deposits[worker - 1] === finished + 1 ? finished + 1 : finished;
}

/** The balance that the account should show. */
export function expectedBalance(run: Run): number {
  let sum = 0;
  for (let worker = 1; worker <= run.workers; worker++) sum += expectedDeposits(run, worker);
  return sum;
}

/** The pairs of holds that overlap in time. Holds are in the order of their grants. */
export function overlapsOf(holds: readonly Hold[]): [Hold, Hold][] {
  const overlaps: [Hold, Hold][] = [];
  let longest: Hold | undefined;
  for (const hold of holds) {
    if (longest !== undefined && endOf(longest) > hold.fromMs) overlaps.push([longest, hold]);
    if (longest === undefined || endOf(hold) > endOf(longest)) longest = hold;
  }
  return overlaps;
}

function endOf({ fromMs, toMs }: Hold): number {
  return toMs ?? fromMs;
}

function checkBalance(run: Run): Finding[] {
  const { balance, deposits } = run.account;
  const expected = expectedBalance(run);
  const findings = [{
    isGood: balance === expected,
    text: balance === expected
      ? `the balance is ${balance}, as it should be`
      : `the balance is ${balance}, but should be ${expected}`,
  }];
  deposits.forEach((count, index) => {
    const wanted = expectedDeposits(run, index + 1);
    if (count === wanted) return;
    const text = `the account shows ${counted(count, "deposit")} of worker ${
      index + 1
    }, not ${wanted}`;
    findings.push({ isGood: false, text });
  });
  return findings;
}

function checkOverlaps(holds: readonly Hold[]): Finding {
  const overlaps = overlapsOf(holds);
  const [first] = overlaps;
  if (first === undefined) {
    return { isGood: true, text: `no two of ${holds.length} holds overlap` };
  }
  const pair = `workers ${first[0].worker} and ${first[1].worker}`;
  const many = overlaps.length === 1 ? "1 hold overlaps" : `${overlaps.length} holds overlap`;
  return { isGood: false, text: `${many} another, first ${pair}` };
}

function checkTokens(holds: readonly Hold[]): Finding {
  const index = holds.findIndex(({ token }, index) =>
    index > 0 && token <= holds[index - 1]!.token
  );
  if (index === -1) return { isGood: true, text: "each grant has a greater fencing token" };
  const [before, after] = [holds[index - 1]!.token, holds[index]!.token];
  return { isGood: false, text: `fencing token ${after} was granted after ${before}` };
}

function checkKill(run: Run, holds: readonly Hold[]): Finding {
  const recovery = recoveryOf(run.events, holds);
  if (recovery === null) {
    return { isGood: false, text: "no worker was killed, though one should have been" };
  }
  for (let worker = 1; worker <= run.workers; worker++) {
    const finished = finishedRounds(run.events, worker);
    if (worker === recovery.worker || finished === run.rounds) continue;
    const text = `worker ${worker} has finished only ${counted(finished, "round")} after the kill`;
    return { isGood: false, text };
  }
  return { isGood: true, text: `worker ${recovery.worker} was killed and the others went on` };
}

function checkWorkers(failures: readonly string[]): Finding[] {
  if (failures.length === 0) return [{ isGood: true, text: "no worker has failed" }];
  return failures.map((text) => ({ isGood: false, text }));
}
