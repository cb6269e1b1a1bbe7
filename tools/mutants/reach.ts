/**
 * Which test files reach which lines, by Deno's coverage. A child process counts if it ends by itself: for
 * one that is killed, Deno writes nothing.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { type FilesOptions, JOBS, runFile } from "../../testing/runner/test_files.ts";
import { ReachedLines } from "./reached_lines.ts";

/** Where the map is kept, below the root; git ignores it. */
const FOLDER = ".mutants";
const IS_TEST = /^(?:tests|testing)\//;
/** Test files that run the code of a folder, which they are named after, on other runtimes. */
const ON_OTHER_RUNTIMES = /^tests\/npm\/([a-z]+)_/;

/** What a test file reaches. */
interface Reached {
  /** How long it ran. */
  readonly seconds: number;
  /** The lines that it reached, by the paths of the files that it loaded. */
  readonly lines: Readonly<Record<string, readonly number[]>>;
}

/** How to run the test files that are not in the map yet. */
export interface ReachOptions extends FilesOptions {
  /** The root of the project, whose folder keeps the map for the next run. */
  readonly root: string;
  /** The hash of the tree of which `cwd` is a copy. */
  readonly tree: string;
  /** Tells how far the map is. */
  readonly print: (line: string) => void;
}

/** A map from lines to the test files that reach them. */
export class Reach {
  readonly #files: ReadonlyMap<string, Reached>;

  private constructor(files: ReadonlyMap<string, Reached>) {
    this.#files = files;
  }

  /**
   * Reads the map, and runs the test files that are missing there.
   *
   * @param tests The paths of the test files from the root.
   */
  static async of(tests: readonly string[], options: ReachOptions): Promise<Reach> {
    const { root, tree, print } = options;
    const folder = `${root}/${FOLDER}/${tree}`;
    await mkdir(folder, { recursive: true });
    for (const name of await readdir(dirname(folder))) {
      if (name !== tree) await rm(`${root}/${FOLDER}/${name}`, { recursive: true });
    }
    const fileOf = (test: string) => `${folder}/${test}.json`;
    const reachedLines = await ReachedLines.in(options.cwd);
    const missing = tests.filter((test) => !existsSync(fileOf(test)));
    let count = 0;
    const queue = [...missing];
    const worker = async () => {
      for (let test = queue.shift(); test !== undefined; test = queue.shift()) {
        const reached = await measure(test, `${fileOf(test)}.counts`, reachedLines, options);
        if (reached === null) return;
        await keep(fileOf(test), reached);
        print(`Reach of ${++count} of ${missing.length}: ${test}, ${reached.seconds.toFixed(1)} s`);
      }
    };
    await Promise.all(Array.from({ length: JOBS }, worker));
    const known = tests.filter((test) => existsSync(fileOf(test)));
    return new Reach(
      new Map(known.map((test) => [test, JSON.parse(readFileSync(fileOf(test), "utf8"))])),
    );
  }

  /** How long a test file ran, in seconds. */
  secondsOf(test: string): number {
    return this.#files.get(test)?.seconds ?? 0;
  }

  /**
   * The test files that reach a line, the nearest one first, then those of other runtimes, which may reach
   * it. If none of Deno does, those of other runtimes come first, then those that load its file: perhaps the
   * line is reached in a child process that is killed.
   */
  testsOf(path: string, line: number): { readonly tests: string[]; readonly isReached: boolean } {
    const names = [...this.#files.keys()].toSorted((a, b) =>
      nearness(path, b) - nearness(path, a) || this.secondsOf(a) - this.secondsOf(b)
    );
    const linesOf = (test: string) => this.#files.get(test)!.lines[path];
    const others = names.filter((test) => folderOnOtherRuntimes(test) === path.split("/")[0]);
    const loading = names.filter((test) =>
      folderOnOtherRuntimes(test) === undefined && linesOf(test) !== undefined
    );
    const reaching = loading.filter((test) => linesOf(test)!.includes(line));
    const isReached = reaching.length > 0;
    return { tests: isReached ? [...reaching, ...others] : [...others, ...loading], isReached };
  }
}

/** The folder of the code that a test file runs on other runtimes, where Deno counts no lines. */
export function folderOnOtherRuntimes(test: string): string | undefined {
  return ON_OTHER_RUNTIMES.exec(test)?.[1];
}

/** How much the path of a test file is like that of a source file: the folders, then the name. */
export function nearness(source: string, test: string): number {
  const there = dirname(test).split("/").slice(1);
  const folders = dirname(source).split("/");
  const differsAt = folders.findIndex((name, i) => name !== there[i]);
  const shared = differsAt < 0 ? folders.length : differsAt;
  const isNamesake = basename(test).startsWith(basename(source, ".ts"));
  return shared > 0 && isNamesake ? 2 * shared + 1 : 2 * shared;
}

/** Runs a test file and finds the lines that it reaches, also if it fails. `null` if interrupted. */
async function measure(
  test: string,
  counts: string,
  reachedLines: ReachedLines,
  options: ReachOptions,
): Promise<Reached | null> {
  const args = [...options.args, `--coverage=${counts}`, "--coverage-raw-data-only"];
  await mkdir(counts, { recursive: true });
  try {
    const { seconds } = await runFile(`${options.cwd}/${test}`, { ...options, args });
    if (options.signal.aborted) return null;
    const lines = Object.entries(reachedLines.read(counts)).filter(([path]) => !IS_TEST.test(path));
    return { seconds, lines: Object.fromEntries(lines) };
  } finally {
    await rm(counts, { recursive: true });
  }
}

async function keep(file: string, reached: Reached): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify(reached));
  await rename(`${file}.new`, file);
}
