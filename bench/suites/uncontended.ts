/**
 * The suite `uncontended`: acquire and release of locks that nobody else wants, against the bare commands.
 *
 * @module
 */
import { CONTENDERS, SETTINGS } from "../contenders/all.ts";
import { type Contender, idOf, type OpenContender } from "../library/contender.ts";
import { FigureBook } from "../library/figures.ts";
import { measured, readServer, serverCost } from "../library/meters.ts";
import { type Job, type RoundOptions, runRounds, stepsOf } from "../library/rounds.ts";
import type { Suite, SuiteContext, SuiteOptions } from "../library/suite.ts";
import { type DelayedRedis, startDelayedRedis } from "../processes/delayed_redis.ts";
import { MEASURES, reportOf } from "./uncontended_report.ts";

/** The cycles of a round, by added delay in ms and calls in flight: each takes about 0.1 s. */
const CYCLES: Readonly<Record<number, Readonly<Record<number, number>>>> = {
  0: { 1: 500, 8: 1_600, 64: 3_200 },
  1: { 1: 40, 8: 320, 64: 1_920 },
};
const QUICK_CALLS = [1, 64];

/** The suite. */
export const uncontended: Suite = {
  name: "uncontended",
  title: "Acquire and release without contention",
  async measure(context) {
    const book = new FigureBook();
    const rounds = roundsOf(context.options);
    const delays = Object.keys(CYCLES).map(Number);
    const calls = Object.keys(CYCLES[0]!).map(Number)
      .filter((count) => !context.options.isQuick || QUICK_CALLS.includes(count));
    const jobs = delays.length * calls.length * CONTENDERS.length;
    context.progress.expect(stepsOf(jobs, rounds));
    for (const delayMs of delays) {
      for (const count of calls) await measureAt({ delayMs, calls: count }, rounds, book, context);
    }
    return reportOf(book.list());
  },
};

function roundsOf({ isQuick, rounds }: SuiteOptions): RoundOptions {
  if (rounds !== undefined) return { warmUp: Math.min(4, rounds), rounds };
  return isQuick ? { warmUp: 2, rounds: 6 } : { warmUp: 4, rounds: 15 };
}

/** How far away the server is, and how many calls are in flight. */
interface Workload {
  readonly delayMs: number;
  readonly calls: number;
}

async function measureAt(
  workload: Workload,
  rounds: RoundOptions,
  book: FigureBook,
  { progress }: SuiteContext,
): Promise<void> {
  await using redis = await startDelayedRedis(workload.delayMs);
  await using stack = new AsyncDisposableStack();
  const jobs: Job[] = [];
  for (const contender of CONTENDERS) {
    const open = stack.use(await contender.open(redis.url, SETTINGS));
    jobs.push(jobOf(contender, open, redis, workload));
  }
  await runRounds(jobs, rounds, book, progress);
}

function jobOf(
  contender: Contender,
  open: OpenContender,
  { server }: DelayedRedis,
  { delayMs, calls }: Workload,
): Job {
  const cycles = CYCLES[delayMs]![calls]!;
  return {
    contender: contender.name,
    at: { client: contender.client, calls, "added round trip ms": delayMs },
    async run() {
      const idle = await readServer(server.command);
      const before = await readServer(server.command);
      const cost = await measured(() => runCycles(open, idOf(contender), calls, cycles));
      const after = await readServer(server.command);
      const { cpuUs, bytes, commands, commandUs } = serverCost(before, after, contender.sends);
      const reading = serverCost(idle, before, []);
      return {
        [MEASURES.time]: cost.wallUs / cycles,
        [MEASURES.clientCpu]: cost.cpuUs / cycles,
        [MEASURES.allocated]: cost.allocatedBytes / cycles,
        [MEASURES.serverCpu]: (cpuUs - reading.cpuUs) / cycles,
        [MEASURES.serverCommands]: commandUs / cycles,
        [MEASURES.traffic]: (bytes - reading.bytes) / cycles,
        [MEASURES.commands]: commands / cycles,
      };
    },
  };
}

/** Runs cycles with a number of calls in flight, each on a name of its own. */
async function runCycles(
  open: OpenContender,
  id: string,
  calls: number,
  cycles: number,
): Promise<void> {
  let left = cycles;
  const lane = async (index: number) => {
    const name = `${id}:${index}`;
    while (left-- > 0) await (await open.acquire(name)).release();
  };
  await Promise.all(Array.from({ length: calls }, (_, index) => lane(index)));
}
