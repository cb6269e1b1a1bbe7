/**
 * Finds awaited timers: places where a test waits for a time, and not for a condition.
 *
 * A timer is a promise that `setTimeout()` or `setInterval()` resolves, `node:timers/promises`, and each
 * function that passes a time of its caller on to one (`pause()`, a helper's helper): each
 * use of that function is an awaited timer, in place of what is inside it. A function whose time is fixed
 * (`settle()`) counts once for each use of it. These are not awaited timers:
 *
 * - one in a loop that checks a condition. Time and rounds are not conditions.
 * - one that rejects, or that `.then()` follows and throws: the bound of a race.
 * - one that `void` says nothing waits for.
 *
 * Two comments are the only exceptions:
 *
 * - `// No condition: <why>`, directly above: nothing can be waited for. At most {@linkcode LIMIT} stay.
 * - `// Paces a workload: <what>`, directly above a function or a method with a name, or, only in
 *   `testing/`, in the head of a file: the load or the fault under test takes time there, and what the
 *   test waits for is elsewhere. It does not count. A test itself cannot have it, because only its
 *   callback contains it.
 *
 * @module
 */
import type { Source, Target, Use } from "./source.ts";

/** How many awaited timers may stay, each with its reason. */
export const LIMIT = 30;

/** A place that waits for a time. */
export interface AwaitedTimer {
  readonly path: string;
  readonly line: number;
  readonly text: string;
  /** How many uses it has: those of the function around it, or itself. */
  readonly count: number;
  /** Whether a comment says why nothing can be waited for. */
  readonly hasReason: boolean;
}

/** A use, with what it refers to: `timer`, the key of a function, or nothing in these files. */
interface Resolved {
  readonly path: string;
  readonly use: Use;
  readonly target: string | undefined;
  readonly within: string | undefined;
}

const TIMER = "timer";

/** Finds the awaited timers of these files, which refer to each other by relative paths. */
export function findAwaitedTimers(sources: readonly Source[]): AwaitedTimer[] {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const all = sources.flatMap((source) =>
    source.uses.map((use): Resolved => ({
      path: source.path,
      use,
      target: resolve(source, use.target, byPath),
      within: use.within === undefined ? undefined : keyOf(source, use.within),
    }))
  ).filter(({ target, within }) => target !== undefined && target !== within);
  const uses = all.filter(({ use }) => !use.isWorkload && use.loop !== "condition");
  const timers = timersIn(uses);
  const called = new Set(all.map(({ target }) => target));
  return uses.filter(({ target }) => timers.has(target!)).flatMap(({ path, use, within }) => {
    if (use.passesTime && called.has(within)) return [];
    const callers = within === undefined ? [] : uses.filter(({ target }) => target === within);
    const { line, text, hasReason } = use;
    return [{ path, line, text, hasReason, count: Math.max(1, callers.length) }];
  });
}

/** The timer itself, and all functions that pass a time on to it, directly or not. */
function timersIn(uses: readonly Resolved[]): Set<string> {
  const found = new Set([TIMER]);
  for (let before = 0; before !== found.size;) {
    before = found.size;
    for (const { use, target, within } of uses) {
      if (use.passesTime && within !== undefined && found.has(target!)) found.add(within);
    }
  }
  return found;
}

function resolve(
  source: Source,
  target: Target,
  sources: ReadonlyMap<string, Source>,
): string | undefined {
  if (target.kind === "timer") return TIMER;
  if (target.kind === "function") return keyOf(source, target.index);
  const from = moduleOf(source, target.from, sources);
  return from && resolveExport(from, target.name, sources);
}

function resolveExport(
  source: Source,
  name: string,
  sources: ReadonlyMap<string, Source>,
): string | undefined {
  const target = source.exports.get(name);
  if (target !== undefined) return resolve(source, target, sources);
  for (const path of source.allOf) {
    const from = moduleOf(source, path, sources);
    const found = from && resolveExport(from, name, sources);
    if (found !== undefined) return found;
  }
  return undefined;
}

function moduleOf(
  { path }: Source,
  from: string,
  sources: ReadonlyMap<string, Source>,
): Source | undefined {
  if (!from.startsWith(".")) return undefined;
  return sources.get(new URL(from, `file:///${path}`).pathname.slice(1));
}

function keyOf({ path }: Source, index: number): string {
  return `${path}#${index}`;
}
