/**
 * The suite `growth`: how costs grow with the number of waiters, locks, names and processes.
 *
 * @module
 */
import { nowUs } from "../../testing/processes/machine_clock.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { LOCKS, SETTINGS } from "../contenders/all.ts";
import { contentionOf, gather } from "../library/contention.ts";
import { type Contender, type Hold, idOf, type OpenContender } from "../library/contender.ts";
import { type Figure, FigureBook, matches, valuesOf } from "../library/figures.ts";
import { measured } from "../library/meters.ts";
import type { Plot } from "../library/plots.ts";
import { type Job, runRounds, stepsOf } from "../library/rounds.ts";
import { median } from "../library/statistics.ts";
import type { Suite, SuiteResult } from "../library/suite.ts";
import { medianCell, type Table } from "../library/tables.ts";
import { startFleet } from "../processes/contention.ts";

const US = "µs per cycle";
const CYCLES = 500;
const AT_ONCE = 100;
/** Waiters in all, while the number of processes grows. */
const SHARED_WAITERS = 16;

/** A number that grows, and its values. */
interface Axis {
  readonly name: "waiters" | "locks" | "names" | "processes";
  readonly title: string;
  readonly values: readonly number[];
}

const AXES: readonly Axis[] = [
  {
    name: "waiters",
    title: "Handoff with more waiters in one process",
    values: [2, 10, 100, 1_000, 10_000],
  },
  {
    name: "locks",
    title: "Acquire and release while the same instance holds other locks",
    values: [1, 10, 100, 1_000, 10_000],
  },
  {
    name: "names",
    title: "Acquire and release of more and more names in turn",
    values: [1, 10, 100, 1_000, 10_000],
  },
  {
    name: "processes",
    title: `Handoff of ${SHARED_WAITERS} waiters in more processes`,
    values: [1, 2, 4, 8],
  },
];

const OURS = LOCKS.filter(({ has }) => has.queue);

/** The suite. */
export const growth: Suite = {
  name: "growth",
  title: "Growth in waiters, locks, names and processes",
  async measure({ options, progress }) {
    const book = new FigureBook();
    const rounds = { warmUp: 1, rounds: options.rounds ?? (options.isQuick ? 1 : 5) };
    const axes = AXES.map((axis) => ({
      ...axis,
      values: axis.values.filter((value) => !options.isQuick || value <= 100),
    }));
    const places = axes.reduce((sum, { values }) => sum + values.length, 0);
    progress.expect(stepsOf(places * OURS.length, rounds));
    for (const axis of axes) {
      await using server = await startRedis();
      await using stack = new AsyncDisposableStack();
      const jobs = await jobsOf(axis, server, stack);
      await runRounds(jobs, rounds, book, progress);
    }
    return reportOf(book.list(), axes);
  },
};

async function jobsOf(
  { name, values }: Axis,
  server: RedisServer,
  stack: AsyncDisposableStack,
): Promise<Job[]> {
  if (name === "waiters" || name === "processes") {
    const fleet = stack.use(startFleet(name === "waiters" ? 1 : Math.max(...values), server.url));
    return OURS.flatMap((contender) =>
      values.map((value) => {
        const [processes, waiters] = name === "waiters" ? [1, value] : [value, SHARED_WAITERS];
        return job(name, contender, value, async () => {
          const order = { id: idOf(contender), name: `${name}:${value}:${contender.client}` };
          const runMs = 500 + waiters * 0.4;
          const startUs = nowUs();
          const work = { ...order, waiters, holdMs: 0, runMs };
          const grants = gather(await fleet.contend(processes, work));
          const span = [startUs + runMs * 500, startUs + runMs * 1_000] as const;
          return 1e6 / contentionOf(grants, waiters, span).grantsPerSecond;
        });
      })
    );
  }
  const jobs: Job[] = [];
  for (const contender of OURS) {
    for (const value of values) {
      const open = stack.use(await contender.open(server.url, SETTINGS));
      const id = `${name}:${value}:${contender.client}`;
      const names = name === "names" ? value : 1;
      jobs.push(job(name, contender, value, async () => {
        // Held during this job only: the renewals of others would slow it down.
        const holds = name === "locks" ? await holdAll(open, id, value) : [];
        const cycleUs = await cycle(open, `${id}:free`, names);
        await releaseAll(holds);
        return cycleUs;
      }));
    }
  }
  return jobs;
}

function job(
  axis: Axis["name"],
  { name, client }: Contender,
  value: number,
  run: () => Promise<number>,
): Job {
  return {
    contender: name,
    at: { client, [axis]: value },
    run: async () => ({ [US]: await run() }),
  };
}

async function holdAll(open: OpenContender, id: string, count: number): Promise<Hold[]> {
  const holds: Hold[] = [];
  for (let i = 0; i < count; i += AT_ONCE) {
    const names = Array.from(
      { length: Math.min(AT_ONCE, count - i) },
      (_, index) => `${id}:${i + index}`,
    );
    holds.push(...await Promise.all(names.map((name) => open.acquire(name))));
  }
  return holds;
}

async function releaseAll(holds: readonly Hold[]): Promise<void> {
  for (let i = 0; i < holds.length; i += AT_ONCE) {
    await Promise.all(holds.slice(i, i + AT_ONCE).map((hold) => hold.release()));
  }
}

/** Each name is used for a while before the first one comes again. */
async function cycle(open: OpenContender, id: string, names: number): Promise<number> {
  const cycles = Math.max(CYCLES, names);
  const { wallUs } = await measured(async () => {
    for (let i = 0; i < cycles; i++) await (await open.acquire(`${id}:${i % names}`)).release();
  });
  return wallUs / cycles;
}

function reportOf(figures: readonly Figure[], axes: readonly Axis[]): SuiteResult {
  return {
    tables: axes.map((axis) => table(figures, axis)),
    plots: axes.map((axis) => plot(figures, axis)),
    verdicts: [],
    notes: ["`deno task bench:growth` prints what each path through the scripts costs the server."],
    figures,
  };
}

function table(figures: readonly Figure[], { name, title, values }: Axis): Table {
  const rows = OURS.map(({ client }) => [
    client,
    ...values.map((value) =>
      medianCell(valuesOf(figures, { measure: US, at: { client, [name]: value } }))
    ),
  ]);
  const head = values.map((value) => `${name}: ${value.toLocaleString("en")}`);
  return { title, rows: [["µs with", ...head], ...rows] };
}

function plot(figures: readonly Figure[], { name, title }: Axis): Plot {
  return {
    name: `growth-${name}`,
    title,
    kind: "lines",
    x: name,
    y: "µs",
    log: { x: true },
    points: figures.filter((figure) => matches(figure, { measure: US }) && name in figure.at)
      .map(({ contender, at, values }) => ({
        series: `${contender}, ${at["client"]}`,
        x: Number(at[name]),
        y: median(values),
      })),
  };
}
