/**
 * Writes the report at the end of the demo.
 *
 * @module
 */
import type { BackendName } from "./arguments.ts";
import {
  type Contrast,
  expectedBalance,
  expectedDeposits,
  type Finding,
  type Run,
} from "./checks.ts";
import { finishedRounds, type Hold, holdsOf, recoveryOf } from "./history.ts";
import { counted } from "./words.ts";
import { closeUp, columnMsOf, drawTimeline, wholeRun, type Window } from "./timeline.ts";

/** The length in ms of a column of the close-up. */
const CLOSE_UP_COLUMN_MS = 1;

/** How the lock of a dead holder becomes free. */
const FREED_BY: Record<BackendName, string> = {
  file: "the system frees the lock of a dead process at once",
  redis: "the dead holder's lease had to run out first (TTL 2 s)",
  zookeeper: "the dead holder's session had to expire first (after 2 s)",
  memory: "",
};

/** The results of the demo. */
export interface Results {
  readonly run: Run;
  readonly contrast: Contrast;
  readonly findings: readonly Finding[];
}

/** The lines of the report. */
export function report(backend: BackendName, { run, contrast, findings }: Results): string[] {
  const holds = holdsOf(run.events);
  const sections = [
    balances(run, contrast),
    waits(run, holds),
    ...holds.length > 0 ? timelines(run, holds) : [],
    ...run.kill ? [kill(backend, run, holds)] : [],
    verdicts(findings),
  ];
  return sections.flatMap((section) => ["", ...section]);
}

function balances(run: Run, contrast: Contrast): string[] {
  const total = run.workers * contrast.rounds;
  const lost = total - contrast.account.balance;
  const fewer = contrast.rounds < run.rounds ? ` (in ${contrast.rounds} rounds each)` : "";
  const expected = expectedBalance(run);
  const { balance } = run.account;
  const verdict = balance === expected ? "nothing lost" : "WRONG";
  return [
    row("Balance", "expected", "actual"),
    `${row("  under the lock", expected, balance)}   ${verdict}`,
    `${row("  without a lock", total, contrast.account.balance)}   ${
      counted(lost, "update")
    } lost${fewer}`,
  ];
}

function waits(run: Run, holds: readonly Hold[]): string[] {
  const lines = [row("Worker", "grants", "wait p50", "wait p95", "longest")];
  for (let worker = 1; worker <= run.workers; worker++) {
    lines.push(waitRow(`  ${worker}`, holds.filter((hold) => hold.worker === worker)));
  }
  return [...lines, waitRow("  all", holds)];
}

function waitRow(title: string, holds: readonly Hold[]): string {
  const sorted = holds.map(({ waitedMs }) => waitedMs).sort((a, b) => a - b);
  return row(title, holds.length, ...[0.5, 0.95, 1].map((share) => ms(quantile(sorted, share))));
}

function timelines(run: Run, holds: readonly Hold[]): string[][] {
  const whole = wholeRun(holds);
  const draw = (title: string, window: Window) => [
    `${title}, ${ms(columnMsOf(window))} per column`,
    ...drawTimeline(holds, run.workers, window).map((line) => `  ${line}`),
  ];
  const legend =
    "  ░ ▒ ▓ █  held for up to a quarter, half, three quarters, all of the column's time";
  const first = [...draw("Holders of the lock over time: the whole run", whole), legend];
  if (columnMsOf(whole) <= CLOSE_UP_COLUMN_MS) return [first];
  return [first, draw("A closer look at its middle", closeUp(holds, CLOSE_UP_COLUMN_MS))];
}

function kill(backend: BackendName, run: Run, holds: readonly Hold[]): string[] {
  const recovery = recoveryOf(run.events, holds);
  if (recovery === null) return ["Kill: no worker was killed"];
  const { worker, round, atMs, next } = recovery;
  const finished = finishedRounds(run.events, worker);
  const isCounted = expectedDeposits(run, worker) > finished;
  const fate = `this round is ${isCounted ? "" : "not "}in the account`;
  return [
    `Kill: worker ${worker} got SIGKILL in its round ${round}, while it held the lock`,
    `  It had finished ${counted(finished, "round")}; ${fate}`,
    ...next === null ? ["  No worker wanted the lock any more"] : [
      `  The next grant came ${ms(next.fromMs - atMs)} later; ${FREED_BY[backend]}`,
      `  ${waitersOf(next, holds)}`,
    ],
  ];
}

/** Describes the workers that waited for the lock at this grant, including its holder. */
function waitersOf({ fromMs: freeMs }: Hold, holds: readonly Hold[]): string {
  const waits = holds.filter(({ fromMs, waitedMs }) =>
    fromMs >= freeMs && fromMs - waitedMs < freeMs
  ).map(({ waitedMs }) => waitedMs);
  const longestMs = Math.max(0, ...waits);
  return `${counted(waits.length, "worker")} waited for it, up to ${ms(longestMs)} each`;
}

function verdicts(findings: readonly Finding[]): string[] {
  const lines = findings.map(({ isGood, text }) => `  ${isGood ? "ok    " : "FAILED"}  ${text}`);
  const clock = "Times are read from the wall clock (Temporal.Now.instant), which processes share.";
  return ["Checks", ...lines, "", clock];
}

/** The value that this share of the sorted values does not exceed. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

function ms(value: number): string {
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ms`;
}

function row(title: string, ...cells: (string | number)[]): string {
  return title.padEnd(16) + cells.map((cell) => String(cell).padStart(11)).join("");
}
