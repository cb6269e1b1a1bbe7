/**
 * Processes that take file locks, delete their files, and are killed.
 *
 * @module
 */
import { mkdir } from "node:fs/promises";
import { type Reporter, startReporter } from "../processes/child.ts";
import { randomOf } from "../processes/random.ts";
import { pause } from "../servers/wait.ts";
import type { Runtime } from "./file_runtimes.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** Options of a process. */
export interface RacerOptions {
  readonly dir: string;
  readonly witnessDir: string;
  readonly names: readonly string[];
  readonly seed: number;
}

/** A report of a process: a number of grants, or a violation. */
export interface RaceReport {
  readonly grants?: number;
  readonly violation?: string;
}

/** Options of a race. */
export interface RaceOptions {
  /** An empty directory. */
  readonly base: string;
  readonly seed: number;
  readonly processes: number;
  readonly durationMs: number;
  readonly killEveryMs: number;
  /** The runtimes of the processes, in turn; this one by default. */
  readonly runtimes?: readonly Runtime[];
}

/** Fewer say that hardly anything has happened. */
const LEAST_KILLS = 4;
const LEAST_GRANTS = 51;

/** The result of a race. */
export interface RaceResult {
  readonly grants: number;
  readonly kills: number;
  readonly violations: readonly string[];
}

/**
 * Runs processes for a time, kills some of them again and again, and starts others for them. On a late
 * machine it goes on until enough has happened.
 */
// Paces a workload: processes run until they are killed.
export async function race(
  { base, seed, processes, durationMs, killEveryMs, runtimes = [] }: RaceOptions,
): Promise<RaceResult> {
  const random = randomOf(seed);
  const paths = { dir: `${base}/locks`, witnessDir: `${base}/witnesses` };
  for (const path of Object.values(paths)) await mkdir(path, { mode: 0o700 });
  const all: Reporter<RaceReport>[] = [];
  const start = () => {
    const options = { ...paths, names: ["a", "b"], seed: Math.floor(random() * 2 ** 31) };
    const { env, commandOf } = runtimes[all.length % runtimes.length] ?? {};
    const script = new URL("./racer.ts", import.meta.url);
    const racer = startReporter<RaceReport>(script, options, env, commandOf);
    all.push(racer);
    return racer;
  };
  const running = Array.from({ length: processes }, start);
  let kills = 0;
  const endMs = performance.now() + durationMs;
  const boundMs = endMs + CONDITION_BOUND_MS;
  const grants = () =>
    all.flatMap(({ reports }) => reports).reduce((sum, { grants = 0 }) => sum + grants, 0);
  const isDone = () =>
    performance.now() >= endMs && kills >= LEAST_KILLS && grants() >= LEAST_GRANTS;
  for (; !isDone() && performance.now() < boundMs; kills++) {
    await pause(killEveryMs * (0.5 + random()));
    const i = Math.floor(random() * processes);
    running[i]!.kill("SIGKILL");
    running[i] = start();
  }
  const codes = await Promise.all(running.map((racer) => racer.finish()));
  for (const racer of all) await racer[Symbol.asyncDispose]();
  const reports = all.flatMap((racer) => racer.reports);
  return {
    grants: grants(),
    kills,
    violations: [
      ...reports.flatMap(({ violation }) => violation ?? []),
      ...codes.filter((code) => code !== 0).map((code) => `a process ended with code ${code}`),
    ],
  };
}
