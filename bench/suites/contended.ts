/**
 * The suite `contended`: waiters in one and in several processes want the same lock.
 *
 * @module
 */
import { pause } from "../../testing/servers/wait.ts";
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { LOCKS } from "../contenders/all.ts";
import { contentionOf, gather } from "../library/contention.ts";
import { type Contender, idOf } from "../library/contender.ts";
import { FigureBook } from "../library/figures.ts";
import { readServer, serverCost } from "../library/meters.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import type { Suite, SuiteOptions } from "../library/suite.ts";
import { type Fleet, startFleet, warmUp } from "../processes/contention.ts";
import { MEASURES, reportOf } from "./contended_report.ts";
import { handoffSteps, measureHandoffs } from "./handoff.ts";

const PROCESSES = 4;
/** More waiters cost a package that polls more than the machine has. */
const MOST_POLLING = 100;
/** From this many waiters on, one round is long enough for steady figures. */
const MANY = 10_000;

/** How many waiters, in how many processes, hold the lock for how long. */
interface Workload {
  readonly waiters: number;
  readonly processes: number;
  readonly holdMs: number;
}

/** The suite. */
export const contended: Suite = {
  name: "contended",
  title: "Many waiters, one lock",
  async measure({ options, progress }) {
    const book = new FigureBook();
    const rounds = { warmUp: 0, rounds: options.rounds ?? (options.isQuick ? 2 : 3) };
    const workloads = workloadsOf(options);
    const usual = workloads.filter(({ waiters }) => waiters < MANY);
    const many = workloads.filter(({ waiters }) => waiters >= MANY);
    progress.expect(stepsOf(usual.flatMap(contendersOf).length, rounds));
    progress.expect(many.flatMap(contendersOf).length + handoffSteps(options));
    {
      await using server = await startRedis();
      await using fleet = startFleet(PROCESSES, server.url);
      for (const contender of LOCKS) await warmUp(fleet, PROCESSES, contender);
      const jobsOf = (workload: Workload) =>
        contendersOf(workload).map((contender) => jobOf(contender, workload, server, fleet));
      for (const workload of usual) await runRounds(jobsOf(workload), rounds, book, progress);
      const one = { warmUp: 0, rounds: 1 };
      for (const workload of many) await runRounds(jobsOf(workload), one, book, progress);
    }
    await measureHandoffs(options, book, progress);
    return reportOf(book.list());
  },
};

function workloadsOf({ isQuick }: SuiteOptions): Workload[] {
  const counts = isQuick ? [2, 100] : [2, 10, 100, 1_000, MANY];
  const holds = isQuick ? [0] : [0, 1];
  return counts.flatMap((waiters) =>
    [1, PROCESSES].flatMap((processes) => holds.map((holdMs) => ({ waiters, processes, holdMs })))
  );
}

function contendersOf({ waiters }: Workload): Contender[] {
  return LOCKS.filter(({ has }) => has.queue || waiters <= MOST_POLLING);
}

/** All waiters have joined, and have been served at least once, before figures count. */
function settleMs(waiters: number): number {
  return 200 + waiters * 0.3;
}

function windowMs(waiters: number): number {
  return waiters >= MANY ? 6_000 : 600;
}

function jobOf(contender: Contender, workload: Workload, server: RedisServer, fleet: Fleet): Job {
  const { waiters, processes, holdMs } = workload;
  const id = idOf(contender);
  return {
    contender: contender.name,
    at: { client: contender.client, waiters, processes, "hold ms": holdMs },
    async run() {
      const runMs = settleMs(waiters) + windowMs(waiters);
      const name = `${id}:${waiters}:${processes}`;
      const running = fleet.contend(processes, { id, name, waiters, holdMs, runMs });
      running.catch(() => {}); // awaited below
      await pause(settleMs(waiters));
      const before = await readServer(server.command);
      const fromUs = nowUs();
      await pause(windowMs(waiters) - 50);
      const toUs = nowUs();
      const after = await readServer(server.command);
      const grants = gather(await running);
      const { commands } = serverCost(before, after, contender.sends);
      const figures = contentionOf(grants, waiters, [fromUs, toUs]);
      const count = figures.grantsPerSecond * (toUs - fromUs) / 1e6;
      return {
        [MEASURES.rate]: figures.grantsPerSecond,
        [MEASURES.handoff]: figures.handoffUs,
        [MEASURES.held]: figures.shareHeld * 100,
        [MEASURES.commands]: commands / count,
        [MEASURES.inversions]: figures.inversions * 100,
        [MEASURES.least]: figures.leastServed * 100,
        [MEASURES.p50]: figures.waitP50Ms,
        [MEASURES.p99]: figures.waitP99Ms,
      };
    },
  };
}
