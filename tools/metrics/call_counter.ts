/**
 * Counts the calls of published functions by V8's precise coverage.
 *
 * @module
 */
import { type Profiler, Session } from "node:inspector/promises";
import { publishedPaths, ROOT } from "./published.ts";

/** The counts of a cycle. */
export interface CycleCount {
  readonly calls: number;
  /** Those that are called in every cycle, or nearly so. */
  readonly functions: number;
  readonly files: number;
  /** Instances of classes. */
  readonly objects: number;
}

/** A called function. */
interface Called {
  readonly file: string;
  /** The class that a call makes an instance of; undefined for all other functions. */
  readonly made: string | undefined;
  readonly calls: number;
}

/** V8's function that sets the fields of a new instance. V8 reports no constructor that is not written. */
const FIELDS = "<instance_members_initializer>";
const CLASS = /(?:^|\*\/)[ \t]*(?:export )?(?:default )?class (\w+)(?: extends (\w+))?/gm;
/** A function that is called in fewer cycles was called by chance, by a timer for example. */
const LEAST = 0.5;

/**
 * Counts what a cycle needs: the difference between rounds of `cycles` and of twice as many, so that
 * what happens once in a round cancels out.
 *
 * @param run Runs so many cycles. It also warms up.
 */
export async function countCycle(
  run: (cycles: number) => Promise<void>,
  cycles: number,
): Promise<CycleCount> {
  const session = new Session();
  session.connect();
  await session.post("Debugger.enable");
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const counted = async (cycles: number) => {
    await session.post("Profiler.takePreciseCoverage"); // sets the counts to 0
    await run(cycles);
    const { result } = await session.post("Profiler.takePreciseCoverage");
    return await callsIn(result, session);
  };
  await counted(cycles);
  const once = await counted(cycles);
  const twice = await counted(2 * cycles);
  session.disconnect();
  const perCycle = [...twice].map(([key, called]) => ({
    ...called,
    calls: (called.calls - (once.get(key)?.calls ?? 0)) / cycles,
  }));
  const usual = perCycle.filter(({ calls }) => calls >= LEAST);
  const sum = (list: readonly Called[]) =>
    Math.round(list.reduce((total, { calls }) => total + calls, 0));
  return {
    calls: sum(usual),
    functions: usual.length,
    files: new Set(usual.map(({ file }) => file)).size,
    objects: sum(instances(usual)),
  };
}

/** One function for each class: a class may have its constructor and the function that sets its fields. */
function instances(called: readonly Called[]): Called[] {
  const classes = new Map<string, Called>();
  for (const each of called) {
    if (each.made !== undefined) classes.set(`${each.file} ${each.made}`, each);
  }
  return [...classes.values()];
}

async function callsIn(
  scripts: readonly Profiler.ScriptCoverage[],
  session: Session,
): Promise<Map<string, Called>> {
  const calls = new Map<string, Called>();
  for (const { scriptId, url, functions } of scripts) {
    const file = url.startsWith(ROOT) ? url.slice(ROOT.length) : "";
    if (!publishedPaths().some((path) => file.startsWith(path))) continue;
    const { scriptSource } = await session.post("Debugger.getScriptSource", { scriptId });
    for (const { functionName, ranges: [range] } of functions) {
      if (range === undefined || range.count === 0) continue;
      const made = classAt(scriptSource, functionName, range.startOffset);
      calls.set(`${file} ${range.startOffset}`, { file, made, calls: range.count });
    }
  }
  return calls;
}

/** The class whose instances a function makes. A class that extends another of ours makes it there. */
function classAt(source: string, functionName: string, offset: number): string | undefined {
  const classes = [...source.matchAll(CLASS)];
  const around = classes.findLast(({ index }) => index < offset);
  if (around === undefined) return undefined;
  const [, name, base] = around;
  const isOurs = base !== undefined && base !== "Error";
  return (functionName === FIELDS || functionName === name) && !isOurs ? name : undefined;
}
