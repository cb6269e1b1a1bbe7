/**
 * One run of mutants: draws them, tries them and tells what became of them.
 *
 * @module
 */
import { TimeFactor } from "../../testing/runner/time_factor.ts";
import type { Copies } from "./copies.ts";
import { drawMutants, type Mutant } from "./draw.ts";
import { diffOf } from "./mutations.ts";
import { Reach } from "./reach.ts";
import { isTyped, type Outcome, type TrialOptions, tryMutant } from "./trial.ts";

/** How many mutants are tried at a time. */
const WORKERS = 2;
/** How many characters of a change a line shows. */
const BRIEF_LENGTH = 40;

/** What to mutate, and how to test it. */
export interface RunOptions {
  /** The root of the project, without a slash at the end. */
  readonly root: string;
  readonly copies: Copies;
  /** The folders and files to mutate, by their paths from the root. */
  readonly sources: readonly string[];
  /** The test files, by their paths from the root. */
  readonly tests: readonly string[];
  readonly seed: number;
  readonly count: number;
  /** The arguments of `deno test` for a copy of the project. */
  readonly argsFor: (copy: string) => Promise<readonly string[]>;
  readonly signal: AbortSignal;
  readonly print: (line: string) => void;
}

/** What a run has found. */
export interface RunResult {
  /** In the order of their ends. */
  readonly outcomes: readonly Outcome[];
  /** How often test files failed without a mutation. */
  readonly unstable: ReadonlyMap<string, number>;
}

/** Tries `count` mutants, or all if there are fewer. Stops early when the signal aborts. */
export async function runMutants(options: RunOptions): Promise<RunResult> {
  const { root, copies, sources, tests, seed, count, argsFor, signal, print } = options;
  const drawn = drawMutants(root, sources, seed);
  const factor = new TimeFactor();
  await factor.measure();
  const [clean = "", checked = "", ...mutable] = await Promise.all(
    Array.from({ length: 2 + WORKERS }, () => copies.make()),
  );
  const args = new Map<string, readonly string[]>();
  for (const copy of [clean, checked, ...mutable]) args.set(copy, await argsFor(copy));
  const argsOf = (copy: string) => args.get(copy)!;
  const reach = await Reach.of(tests, {
    ...{ root, tree: copies.tree, cwd: clean, args: argsOf(clean) },
    ...{ filter: undefined, factor, signal, print },
  });
  const unstable = new Map<string, number>();
  const trial: TrialOptions = { argsOf, reach, clean, factor, signal, unstable };
  const outcomes: Outcome[] = [];
  const mutants = typed(drawn, count, checked, trial);
  const worker = async (copy: string) => {
    for await (const mutant of mutants) {
      const startMs = performance.now();
      const outcome = await tryMutant(mutant, copy, trial);
      if (signal.aborted) return;
      outcomes.push(outcome);
      const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
      print(`${outcomes.length} of ${count}: ${lineOf(outcome)}, ${seconds} s`);
    }
  };
  await Promise.all(mutable.map(worker));
  return { outcomes, unstable };
}

/**
 * The first `count` mutants whose types are right. Both workers take from it: it answers one after the
 * other, so which mutants these are does not depend on their times.
 */
async function* typed(
  drawn: readonly Mutant[],
  count: number,
  copy: string,
  options: TrialOptions,
): AsyncGenerator<Mutant> {
  let left = count;
  for (const mutant of drawn) {
    if (left === 0 || options.signal.aborted) return;
    if (!await isTyped(mutant, copy, options)) continue;
    left--;
    yield mutant;
  }
}

function lineOf({ mutant, killer, detail }: Outcome): string {
  const { path, line, text, start, end, replacement } = mutant;
  const change = `${brief(text.slice(start, end))} → ${brief(replacement)}`;
  const fate = killer === undefined ? `survived: ${detail}` : `killed by ${killer} (${detail})`;
  return `${path}:${line} ${change} ${fate}`;
}

function brief(text: string): string {
  const [first = ""] = text.split("\n");
  return first === text && text.length <= BRIEF_LENGTH
    ? `"${text}"`
    : `"${first.slice(0, BRIEF_LENGTH)}…"`;
}

/** The lines about a run: the survivors with their changes, and the rate. */
export function reportOf({ outcomes, unstable }: RunResult): string[] {
  const survivors = outcomes.filter(({ killer }) => killer === undefined)
    .toSorted(({ mutant: a }, { mutant: b }) => a.path.localeCompare(b.path) || a.line - b.line);
  const lines = survivors.flatMap(({ mutant, detail }) => [
    `\n${mutant.path}:${mutant.line} ${mutant.kind}: ${detail}`,
    ...diffOf(mutant.text, mutant),
  ]);
  for (const [test, times] of unstable) {
    lines.push(`\nFailed without a mutation, ${times === 1 ? "once" : `${times} times`}: ${test}`);
  }
  const killed = outcomes.length - survivors.length;
  const percent = outcomes.length === 0 ? 0 : 100 * killed / outcomes.length;
  return [...lines, `\n${killed} of ${outcomes.length} mutants killed, ${percent.toFixed(1)} %`];
}
