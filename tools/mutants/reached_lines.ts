/**
 * Reads from V8's raw counts which lines of TypeScript a process has reached. `deno coverage` does not do:
 * for it a line is not reached if only a part of it is, such as the condition of an `if`.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runCommand } from "../../testing/servers/command.ts";

const COMMAND_BOUND_MS = 60_000;
const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SOURCE_MAP = /\n\/\/# sourceMappingURL=data:application\/json;base64,(\S+)/;

/** What V8 counts for one module. A range within another one comes after it. */
interface Counts {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly {
      readonly startOffset: number;
      readonly endOffset: number;
      readonly count: number;
    }[];
  }[];
}

/** A place in JavaScript, and its line in TypeScript. */
interface Segment {
  readonly offset: number;
  readonly line: number;
}

/** The lines that processes reach in the modules of a folder. */
export class ReachedLines {
  readonly #prefix: string;
  /** Where Deno keeps the JavaScript that it runs. */
  readonly #emitted: string;
  /** By URL. */
  readonly #segments = new Map<string, readonly Segment[]>();

  private constructor(folder: string, emitted: string) {
    this.#prefix = `${pathToFileURL(folder).href}/`;
    this.#emitted = emitted;
  }

  /** @param folder A folder without a slash at its end. */
  static async in(folder: string): Promise<ReachedLines> {
    const command = [process.execPath, "info", "--json"];
    const { success, output } = await runCommand(command, COMMAND_BOUND_MS, { cwd: folder });
    if (!success) throw new Error(`Cannot find the cache of Deno: ${output}`);
    return new ReachedLines(folder, JSON.parse(output).typescriptCache);
  }

  /**
   * Reads the files that `--coverage=FOLDER` has written.
   *
   * @returns The lines by the path of the module in the folder, for each module that was loaded.
   */
  read(counts: string): Record<string, number[]> {
    const lines = new Map<string, Set<number>>();
    for (const name of readdirSync(counts).filter((name) => name.endsWith(".json"))) {
      const module = readCounts(`${counts}/${name}`);
      if (!module?.url.startsWith(this.#prefix) || !module.url.endsWith(".ts")) continue;
      const path = module.url.slice(this.#prefix.length);
      const reached = lines.get(path) ?? new Set();
      for (const line of this.#linesOf(module)) reached.add(line);
      lines.set(path, reached);
    }
    return Object.fromEntries([...lines].map(([path, reached]) => [path, [...reached]]));
  }

  #linesOf({ url, functions }: Counts): number[] {
    const ranges = functions.flatMap(({ ranges }) => ranges);
    const isReached = new Uint8Array(Math.max(0, ...ranges.map(({ endOffset }) => endOffset)));
    for (const { startOffset, endOffset, count } of ranges) {
      isReached.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    }
    return this.#segmentsOf(url).filter(({ offset }) => isReached[offset]).map(({ line }) => line);
  }

  #segmentsOf(url: string): readonly Segment[] {
    const known = this.#segments.get(url);
    if (known !== undefined) return known;
    const text = readFileSync(`${this.#emitted}/file${fileURLToPath(url)}.js`, "utf8");
    const map = SOURCE_MAP.exec(text)?.[1];
    if (map === undefined) throw new Error(`Deno has kept no source map of ${url}`);
    const segments = segmentsIn(text, JSON.parse(atob(map)).mappings);
    this.#segments.set(url, segments);
    return segments;
  }
}

/** Undefined if the process was killed while it wrote the file. */
function readCounts(file: string): Counts | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/** Decodes the mappings of a source map: https://tc39.es/ecma426/ */
function segmentsIn(text: string, mappings: string): Segment[] {
  const segments: Segment[] = [];
  let lineStart = 0;
  let sourceLine = 0;
  for (const group of mappings.split(";")) {
    let column = 0;
    for (const segment of group.split(",")) {
      const [columns, , lines] = numbersIn(segment);
      if (columns === undefined) continue;
      column += columns;
      if (lines === undefined) continue;
      sourceLine += lines;
      segments.push({ offset: lineStart + column, line: sourceLine + 1 });
    }
    lineStart = text.indexOf("\n", lineStart) + 1;
  }
  return segments;
}

/** Decodes numbers of five bits per digit, the lowest ones first; the lowest bit of all is the sign. */
function numbersIn(text: string): number[] {
  const numbers: number[] = [];
  let [value, shift] = [0, 0];
  for (const digit of text) {
    const bits = BASE64.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if ((bits & 32) !== 0) continue;
    numbers.push((value & 1) === 0 ? value >> 1 : -(value >> 1));
    [value, shift] = [0, 0];
  }
  return numbers;
}
