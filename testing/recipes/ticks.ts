/**
 * Ticks of a schedule in several processes, whose clocks are wrong, and which may be killed.
 *
 * @module
 */
// Paces a workload: the kills are spread over the run.
import { assert, assertEquals } from "@std/assert";
import type { LockSpec } from "../conformance/lock_spec.ts";
import type { Reporter } from "../processes/child.ts";
import { say } from "../processes/figures.ts";
import { randomFrom } from "../processes/random.ts";
import { pause } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import {
  countTicks,
  startTicker,
  type TickCounts,
  type TickReport,
  type Ticks,
} from "./tickers.ts";

const IS_SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

/** How many winners a run kills that kills any. */
export const KILLS = 100;

/** As small as a default test must be. A soak runs 1,000 ticks in 20 processes. */
const PROCESSES = IS_SOAK ? 20 : 3;
const CLOCK_MS = IS_SOAK ? 2_000 : 20;
const START_MS = scaled(IS_SOAK ? 20_000 : 2_000);
const SMALL = { ...{ everyMs: scaled(1_000), keepMs: scaled(600), jobs: 1, jobMs: 100 }, ticks: 3 };
const LARGE = { keepMs: 8_000, jobMs: 3_000, blockPart: 0.1, blockMs: 1_000, ticks: 1_000 };

/**
 * The ticks of a run. With the time of the tick they may come faster than `keepMs`. Without it, the period of
 * a job is longer than `keepMs` and the spread, so there are several jobs at once.
 */
function ticksOf(withTick: boolean): Ticks {
  if (!IS_SOAK) return { ...SMALL, blockPart: 1, blockMs: 50, withTick };
  return {
    ...LARGE,
    ...withTick ? { everyMs: 500, jobs: 1 } : { everyMs: 800, jobs: 20 },
    withTick,
  };
}

/** Runs all ticks in all processes, and says how many ran once. */
export async function runTicks(
  spec: LockSpec,
  withTick: boolean,
  kills: number,
): Promise<TickCounts> {
  const ticks = ticksOf(withTick);
  const random = randomFrom("ticks");
  await using stack = new AsyncDisposableStack();
  const fromMs = Date.now() + START_MS;
  const start = (firstTick: number): Reporter<TickReport> =>
    stack.use(startTicker({
      ...ticks,
      ...{ spec, fromMs, firstTick, seed: Math.floor(random() * 2 ** 31) },
      clockMs: Math.round((random() * 2 - 1) * CLOCK_MS),
    }));
  const processes = Array.from({ length: PROCESSES }, () => start(0));
  const alive = new Set(processes);
  const killed = new Set<Reporter<TickReport>>();
  const lastMs = fromMs + ticks.ticks * ticks.everyMs;
  while (killed.size < kills && Date.now() < lastMs) {
    // In equal parts of the time, on average.
    await pause(2 * random() * (lastMs - Date.now()) / (kills - killed.size + 1));
    const winner = [...alive].find(isRunning);
    if (winner === undefined) continue;
    winner.kill("SIGKILL");
    alive.delete(winner);
    killed.add(winner);
    // The fresh one joins at a tick that has not come by any clock.
    const fresh = start(Math.ceil((Date.now() + 2 * CLOCK_MS - fromMs) / ticks.everyMs));
    processes.push(fresh);
    alive.add(fresh);
  }
  for (const process of alive) assertEquals(await process.finish(), 0);
  for (const process of killed) await process.finish();
  const counts = countTicks(
    processes.map(({ reports }) => reports),
    new Set([...killed].map(({ reports }) => reports)),
    ticks,
  );
  report(spec, ticks, killed.size, counts);
  assert(counts.once > 0);
  return counts;
}

/** Runs ticks whose winners are killed, where the mark ends with its process: then, and only then, twice. */
export async function checkKilledTicks(spec: LockSpec): Promise<void> {
  const { twice, twiceAlive, missedAlive, failed } = await runTicks(spec, true, KILLS);
  const nothing = { twiceAlive: [], missedAlive: [], failed: [] };
  assertEquals({ twiceAlive, missedAlive, failed }, nothing);
  assert(twice.length > 0, "else the documentation says too little of this strategy");
}

function isRunning({ reports }: Reporter<TickReport>): boolean {
  const last = reports.findLast(({ what }) => what === "runs" || what === "ran");
  return last?.what === "runs";
}

function report(spec: LockSpec, ticks: Ticks, kills: number, counts: TickCounts): void {
  const { once, died, twice, twiceAlive, missed, missedAlive, outsideRule, spreadMs } = counts;
  say(
    `runOnce() on ${spec.strategy}, ${PROCESSES} processes, ${ticks.jobs} jobs, ` +
      `${ticks.withTick ? "with" : "without"} tick, spread up to ${Math.round(spreadMs)} ms, ` +
      `${kills} kills: of ${ticks.ticks} ticks ran once ${once}, twice ${twice.length}, ` +
      `${twiceAlive.length} of them with a winner that lived; not ${missed.length}, ` +
      `${missedAlive.length} of them without a kill; winners killed in ${died}; outside the rule ` +
      `${outsideRule.length}; failed calls ${counts.failed.length}`,
  );
}
