/**
 * The suite `file`: locks between processes of one machine, beside `proper-lockfile` and `flock(1)`.
 *
 * @module
 */
import { chmod, rm } from "node:fs/promises";
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { FILE_LOCKS, SETTINGS } from "../contenders/all.ts";
import { contentionOf, gather } from "../library/contention.ts";
import { type Contender, idOf } from "../library/contender.ts";
import { FigureBook, valuesOf } from "../library/figures.ts";
import { measured } from "../library/meters.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import { quantile } from "../library/statistics.ts";
import type { Suite, SuiteResult } from "../library/suite.ts";
import { medianCell, type Table } from "../library/tables.ts";
import { type Fleet, startFleet, warmUp } from "../processes/contention.ts";
import { CRASH_MEASURES, killHolder } from "./crashes.ts";

/** The measured quantities of processes that contend. */
export const MEASURES = {
  rate: "grants per second",
  p50: "ms from release to next grant, p50",
  p99: "ms from release to next grant, p99",
  least: "% of an equal share for the least-served process",
} as const;
const CYCLE = "µs per cycle";
const CYCLES = 50;
const PROCESSES = [2, 10] as const;
const HOLD_MS = 1;
const RUN_MS = 3_000;
/** Processes start to contend at different moments. */
const SETTLE_US = 500_000;

/** The suite. */
export const file: Suite = {
  name: "file",
  title: "Locks on files",
  async measure({ options, progress }) {
    const book = new FigureBook();
    const rounds = { warmUp: 0, rounds: options.rounds ?? (options.isQuick ? 1 : 3) };
    const cycleRounds = { warmUp: 2, rounds: options.rounds ?? (options.isQuick ? 5 : 11) };
    const many = FILE_LOCKS.length;
    progress.expect(
      stepsOf(many, cycleRounds) + stepsOf(many, rounds) * (PROCESSES.length + 1),
    );
    const dir = await makeTempDirectory();
    try {
      await chmod(dir, 0o700);
      await runRounds(await cycleJobs(dir), cycleRounds, book, progress);
      await using fleet = startFleet(Math.max(...PROCESSES), dir);
      for (const contender of FILE_LOCKS) await warmUp(fleet, Math.max(...PROCESSES), contender);
      for (const processes of PROCESSES) {
        const jobs = FILE_LOCKS.map((contender) => handoffJob(contender, processes, fleet));
        await runRounds(jobs, rounds, book, progress);
      }
      await runRounds(
        FILE_LOCKS.map((contender) => crashJob(contender, dir)),
        rounds,
        book,
        progress,
      );
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
    return reportOf(book);
  },
};

async function cycleJobs(dir: string): Promise<Job[]> {
  const opened = FILE_LOCKS.map(async ({ name, open }) => ({
    name,
    contender: await open(dir, SETTINGS),
  }));
  return (await Promise.all(opened)).map(({ name, contender }) => ({
    contender: name,
    at: {},
    async run() {
      const { wallUs } = await measured(async () => {
        for (let i = 0; i < CYCLES; i++) await (await contender.acquire(`${name}:cycle`)).release();
      });
      return { [CYCLE]: wallUs / CYCLES };
    },
  }));
}

function handoffJob(contender: Contender, processes: number, fleet: Fleet): Job {
  const id = idOf(contender);
  return {
    contender: contender.name,
    at: { processes },
    async run() {
      const startUs = nowUs();
      const order = { id, name: `${id}:${processes}`, waiters: processes, holdMs: HOLD_MS };
      const grants = gather(await fleet.contend(processes, { ...order, runMs: RUN_MS }));
      const span = [startUs + SETTLE_US, startUs + RUN_MS * 1_000] as const;
      const { grantsPerSecond, leastServed } = contentionOf(grants, processes, span);
      const gapsMs = grants.slice(1).flatMap(({ grantedUs, waiter }, index) => {
        const before = grants[index]!;
        return before.waiter === waiter ? [] : [(grantedUs - before.releasedUs) / 1_000];
      });
      return {
        [MEASURES.rate]: grantsPerSecond,
        [MEASURES.p50]: quantile(gapsMs, 0.5),
        [MEASURES.p99]: quantile(gapsMs, 0.99),
        [MEASURES.least]: leastServed * 100,
      };
    },
  };
}

function crashJob(contender: Contender, dir: string): Job {
  return {
    contender: contender.name,
    at: {},
    run: async () => ({ [CRASH_MEASURES.holder]: await killHolder(contender, dir, SETTINGS) }),
  };
}

function reportOf(book: FigureBook): SuiteResult {
  const figures = book.list();
  const names = FILE_LOCKS.map(({ name }) => name);
  const alone: Table = {
    title: "One process, and a killed holder",
    rows: [
      ["contender", CYCLE, CRASH_MEASURES.holder],
      ...names.map((contender) => [
        contender,
        ...[CYCLE, CRASH_MEASURES.holder].map((measure) =>
          medianCell(valuesOf(figures, { contender, measure }))
        ),
      ]),
    ],
  };
  const handoffs = PROCESSES.map((processes): Table => ({
    title: `${processes} processes, held for ${HOLD_MS} ms`,
    note: "Times from a release to a grant count only if the next holder is another process.",
    rows: [
      ["contender", ...Object.values(MEASURES)],
      ...names.map((contender) => [
        contender,
        ...Object.values(MEASURES).map((measure) =>
          medianCell(valuesOf(figures, { contender, measure, at: { processes } }))
        ),
      ]),
    ],
  }));
  return {
    tables: [alone, ...handoffs],
    plots: [{
      name: "file",
      title: "Locks on files: from release to the next process",
      kind: "bars",
      x: "processes",
      y: MEASURES.p50,
      log: { y: true },
      points: figures.filter(({ measure }) => measure === MEASURES.p50)
        .flatMap(({ contender, at, values }) =>
          values.slice(0, 1).map((y) => ({ series: contender, x: `${at["processes"]}`, y }))
        ),
    }],
    verdicts: [],
    notes: [
      "`flock(1)` needs a process for each holder and each waiter, whose start is part of its cycle. " +
      "`proper-lockfile` polls, every 5 ms here; it takes the lock of a dead holder after 10 s.",
    ],
    figures,
  };
}
