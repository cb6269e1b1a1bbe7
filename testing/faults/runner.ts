/**
 * Runs the workers and the nemesis, and collects what they record.
 *
 * @module
 */
// Paces a workload: the workers run without faults at the begin and the end.
import { existsSync } from "node:fs";
import { STRATEGY_OPTIONS } from "../../core/lease/lifetime.ts";
import { nowUs } from "../processes/machine_clock.ts";
import { randomOf } from "../processes/random.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { openLifeline } from "../servers/guarded_process.ts";
import "../servers/ports.ts"; // takes its ports now: inside a test, they would count as left open
import { pause, waitUntil } from "../servers/wait.ts";
import { filePlace } from "./file_place.ts";
import { Fleet } from "./fleet.ts";
import type { FaultEvent, History } from "./history.ts";
import { LINK_FAULTS } from "./link_faults.ts";
import { harass } from "./nemesis.ts";
import type { FaultTable, Place, Stage } from "./place.ts";
import { type ClockMaker, clockMaker } from "./wall_clock.ts";
import { WORKER_CLOCK_FAULTS, WORKER_FAULTS } from "./worker_faults.ts";
import { HABITS, type Habits } from "./recording_workers.ts";
import { LONG_BOUND_MS } from "../time.ts";

const SHARED_MEMORY = "/dev/shm";
/** The calm in ms before the first fault and after the last. */
const CALM_MS = 500;
/** How long in ms the workers may take to start. */
const START_BOUND_MS = LONG_BOUND_MS;

/** How long in µs a lock is kept for its holder after a disposal, less 10 ms for timers. */
const KEPT_US = (STRATEGY_OPTIONS.disposeTimeoutMs.default / 2 - 10) * 1_000;

/** Options of a run. */
export interface RunOptions {
  readonly strategy: History["strategy"];
  readonly seed: number;
  /** How long in ms the nemesis causes faults. */
  readonly durationMs: number;
  /** The names of the faults to draw from; all by default. */
  readonly faults?: readonly string[];
  readonly workers?: number;
  readonly lanes?: number;
  readonly locks?: number;
  readonly habits?: Partial<Habits>;
  /** An older checkout, whose code every second worker runs. Its URL ends with a slash. */
  readonly beside?: URL;
  /** How long in ms to wait at the end until nothing is left on the servers. */
  readonly residueBoundMs: number;
  /** Called after each fault, with the number of grants so far. */
  onFault?(event: FaultEvent, grants: number): void;
}

/** A run was asked for faults that its strategy does not have. */
export class UnknownFault extends Error {}

/** The result of a run. */
export interface RunResult {
  readonly history: History;
  /** Failures of workers that no history shows; empty in a good run. */
  readonly problems: readonly string[];
  /** Faults that are impossible on this machine, with the reason. */
  readonly skipped: Readonly<Record<string, string>>;
}

/**
 * The numbers of workers, of concurrent calls in each, and of locks; chosen so that calls always wait. Most
 * files are used so rarely that they are deleted, and a few all the time.
 */
const SIZES = {
  file: { workers: 4, lanes: 4, locks: 200, skew: 4 },
  redis: { workers: 5, lanes: 10, locks: 16, skew: 1 },
  zookeeper: { workers: 4, lanes: 5, locks: 6, skew: 1 },
} as const;

/** Habits of workers on one strategy: they hold long where that is rare. */
const OWN_HABITS: Readonly<Record<History["strategy"], Partial<Habits>>> = {
  file: {},
  redis: {},
  zookeeper: { outlasts: 8, holds: 250, disposes: 8 },
};

/** Everything that a run sets up before it begins. */
interface Setting {
  readonly place: Place;
  readonly makeClock: ClockMaker | null;
  readonly directory: string;
  readonly names: readonly string[];
  readonly workers: number;
  readonly lanes: number;
  readonly skew: number;
}

/** Runs workers under faults and resolves with the record. */
export async function run(options: RunOptions): Promise<RunResult> {
  await using stack = new AsyncDisposableStack();
  const setting = await setUp(options, stack);
  const { place } = setting;
  const [faults, skipped] = select(setting, options.faults);
  const startUs = nowUs();
  const fleet = stack.use(newFleet(setting, options));
  const random = randomOf(options.seed);
  const stage: Stage = {
    ...{ place, fleet, random },
    pick: (items) => items[Math.floor(random() * items.length)]!,
  };
  // On a busy machine, processes take seconds to start.
  await waitUntil("all workers have begun", () => fleet.hasBegun, START_BOUND_MS);
  const untilUs = nowUs() + options.durationMs * 1_000;
  await pause(CALM_MS);
  const done = await harass(stage, faults, untilUs, (event) => {
    options.onFault?.(event, fleet.grants);
  });
  await pause(Math.max(CALM_MS, (untilUs - nowUs()) / 1_000));
  const healUs = nowUs();
  const healing = await place.heal();
  if (healing) done.push({ atUs: healUs, untilUs: nowUs(), fault: "heal", ...healing });
  fleet.clocks.forEach((clock) => clock.set(0));
  await fleet.finish();
  const endUs = nowUs();
  const history: History = {
    ...{ strategy: place.strategy, fifo: place.fifo, seed: options.seed, startUs, endUs },
    ...{ ttlUs: place.ttlMs * 1_000, keptUs: KEPT_US },
    events: fleet.events.sort((a, b) => a.atUs - b.atUs),
    faults: done,
    crashed: fleet.crashed,
    residue: [
      ...await place.residue(options.residueBoundMs),
      { what: "worker processes", count: fleet.running },
    ],
  };
  return { history, problems: fleet.problems, skipped };
}

async function setUp(options: RunOptions, stack: AsyncDisposableStack): Promise<Setting> {
  const directory = await makeTempDirectory(existsSync(SHARED_MEMORY) ? SHARED_MEMORY : undefined);
  stack.use(openLifeline({ remove: directory }));
  const { workers, lanes, locks, skew } = { ...SIZES[options.strategy], ...options };
  const names = Array.from({ length: locks }, (_, i) => `lock ${i}`);
  const makeClock = await clockMaker(directory);
  const common = { makeClock, directory, names, workers, lanes, skew };
  return { ...common, place: stack.use(await open(options.strategy, common)) };
}

/** Loads and starts only the strategy that is used. */
async function open(
  strategy: RunOptions["strategy"],
  { directory, names, workers, makeClock }: Omit<Setting, "place">,
): Promise<Place> {
  if (strategy === "file") return filePlace(directory, names);
  if (strategy === "redis") {
    return await (await import("./redis_place.ts")).redisPlace(workers, makeClock);
  }
  return await (await import("./zookeeper_place.ts")).zooKeeperPlace(workers);
}

function newFleet({ place, makeClock, ...setting }: Setting, options: RunOptions): Fleet {
  const { directory, names, workers, lanes, skew } = setting;
  const clocks = makeClock ? Array.from({ length: workers }, (_, i) => makeClock(`w${i}`)) : [];
  return new Fleet(place, {
    ...{ names, skew, workers, lanes, clocks, seed: options.seed },
    storePath: `${directory}/store.db`,
    beside: options.beside,
    habits: { ...HABITS, ...OWN_HABITS[place.strategy], ...options.habits },
  });
}

/** The faults to draw from, and those that are impossible on this machine. */
function select(
  { place, makeClock }: Setting,
  wanted: readonly string[] | undefined,
): [FaultTable, Record<string, string>] {
  const all: FaultTable = {
    ...WORKER_FAULTS,
    ...makeClock && WORKER_CLOCK_FAULTS,
    ...place.linksOf(0).length > 0 && LINK_FAULTS,
    ...place.faults,
  };
  const noClock = makeClock ? {} : { "worker-clock": "it needs Linux and a C compiler" };
  const skipped = { ...place.skipped, ...noClock };
  if (wanted === undefined) return [all, skipped];
  const known = [...Object.keys(all), ...Object.keys(skipped)];
  const unknown = wanted.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new UnknownFault(`Unknown fault "${unknown}": choose from ${known.join(", ")}`);
  }
  return [
    Object.fromEntries(Object.entries(all).filter(([name]) => wanted.includes(name))),
    skipped,
  ];
}
