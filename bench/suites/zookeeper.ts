/**
 * The suite `zookeeper`: locks on one server and on three, beside Curator and kazoo, and against the fewest
 * requests that could do the same job through the same client package.
 *
 * @module
 */
import { type Driver, type Kind, startDriver } from "../../testing/interop/driver.ts";
import { preparePrograms, type Programs } from "../../testing/interop/peer_programs.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import {
  startZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";
import { FigureBook } from "../library/figures.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import type { Suite, SuiteContext, SuiteOptions } from "../library/suite.ts";
import { measureRequests } from "./zookeeper_requests.ts";
import { reportOf, US } from "./zookeeper_report.ts";

/** The cycles of a round, by the number of contenders. */
const CYCLES: Readonly<Record<number, number>> = { 1: 400, 8: 400, 100: 400, 1_000: 1_000 };
const QUICK_CONTENDERS = [1, 8];
/** More contenders take kazoo minutes. */
const MOST_OF_KAZOO = 100;
const ROOT = "/bench";
/** Where rounds are long, fewer are enough. */
const FEW_ROUNDS = 3;

/** The suite. */
export const zookeeper: Suite = {
  name: "zookeeper",
  title: "Locks on ZooKeeper",
  async measure(context) {
    const book = new FigureBook();
    const programs = await preparePrograms();
    const skip = await zooKeeperEnsembleSkip();
    const clusters = skip === undefined ? [1, 3] : [1];
    const rounds = roundsOf(context.options);
    context.progress.expect(stepsOf(2, rounds));
    for (const contenders of contendersOf(context.options)) {
      const jobs = kindsOf(programs, contenders).length * clusters.length;
      context.progress.expect(stepsOf(jobs, roundsAt(contenders, context.options)));
    }
    for (const servers of clusters) {
      await using cluster = servers === 1 ? await startZooKeeper() : await startZooKeeperEnsemble();
      const { connectString } = cluster;
      if (servers === 1) await measureRequests(connectString, rounds, book, context.progress);
      await besideOthers(connectString, servers, programs, book, context);
    }
    return reportOf(book.list(), programs, skip);
  },
};

function roundsOf({ isQuick, rounds }: SuiteOptions) {
  if (rounds !== undefined) return { warmUp: Math.min(5, rounds), rounds };
  return isQuick ? { warmUp: 3, rounds: 5 } : { warmUp: 3, rounds: 9 };
}

function roundsAt(contenders: number, options: SuiteOptions) {
  const rounds = roundsOf(options);
  return contenders < 100 ? rounds : { warmUp: 1, rounds: Math.min(FEW_ROUNDS, rounds.rounds) };
}

function contendersOf({ isQuick }: SuiteOptions): number[] {
  return isQuick ? QUICK_CONTENDERS : Object.keys(CYCLES).map(Number);
}

function kindsOf(programs: Programs, contenders: number): Kind[] {
  const kinds: Kind[] = ["ours"];
  if (programs.curator.command) kinds.push("curator");
  if (programs.kazoo.command && contenders <= MOST_OF_KAZOO) kinds.push("kazoo");
  return kinds;
}

/** Each library is in a process with one session; its contenders are threads or calls there. */
async function besideOthers(
  connectString: string,
  servers: number,
  programs: Programs,
  book: FigureBook,
  { options, progress }: SuiteContext,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const drivers = new Map<Kind, Driver>();
  for (const kind of kindsOf(programs, 1)) {
    const place = { connectString, path: `${ROOT}/${kind}` };
    drivers.set(kind, stack.use(await startDriver(kind, place, programs)));
  }
  for (const contenders of contendersOf(options)) {
    const jobs = kindsOf(programs, contenders).map((kind): Job => ({
      contender: kind === "ours" ? "holdfast" : kind,
      at: { servers, contenders },
      async run() {
        const driver = drivers.get(kind)!;
        await driver.send(`time ${contenders} ${CYCLES[contenders]}`);
        return { [US]: Number(await driver.line()) };
      },
    }));
    await runRounds(jobs, roundsAt(contenders, options), book, progress);
  }
  for (const driver of drivers.values()) await driver.end();
}
