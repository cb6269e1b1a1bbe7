/**
 * Writes the metrics as Markdown.
 *
 * @module
 */
import { number, rowsText } from "../../bench/library/tables.ts";
import type { BytesJob, BytesResult } from "./bytes.ts";
import type { CycleResult } from "./cycle_process.ts";
import { LIMITS, type StaticCounts, sum } from "./static.ts";

/** A cycle that was measured. */
export interface MeasuredCycle extends CycleResult {
  readonly title: string;
}

/** The bytes that a cycle on Redis allocates. */
export interface MeasuredBytes extends BytesJob, BytesResult {}

/** All metrics. */
export interface Metrics {
  readonly counts: StaticCounts;
  readonly cycles: readonly MeasuredCycle[];
  readonly bytes: readonly MeasuredBytes[];
}

/** The tables. */
export function tablesOf({ counts, cycles, bytes }: Metrics): string {
  const parts = [`### Code\n\n${rowsText([["count", "today"], ...codeRows(counts)])}`];
  if (cycles.length > 0) {
    const head = ["cycle", "calls", "functions", "files", "objects", "frames: first", "deepest"];
    parts.push(`### Calls per cycle\n\n${rowsText([head, ...cycles.map(cycleRow)])}`);
  }
  if (bytes.length > 0) {
    const rows = bytes.map(({ client, calls, ours, bare }) => {
      return [client, `${calls}`, number(ours), number(bare), number(ours - bare)];
    });
    const head = ["client", "calls in flight", "bytes", "the client alone", "ours"];
    parts.push(`### Bytes per Redis cycle\n\n${rowsText([head, ...rows])}`);
  }
  return parts.join("\n\n");
}

function codeRows(counts: StaticCounts): string[][] {
  const { typeScriptLines, luaLines, types } = counts;
  const kinds = Object.entries(types).map(([kind, count]) => `${kind} ${count}`).sort().join(", ");
  const lines = `lines of code (TypeScript ${number(typeScriptLines)}, Lua ${number(luaLines)})`;
  const rows: [string, number][] = [
    [lines, typeScriptLines + luaLines],
    ["files", counts.files],
    [`named types (${kinds})`, sum(Object.values(types))],
    ["functions", counts.functions],
    ["forwarders", counts.forwarders.length],
    [`functions over ${LIMITS.functionLines} lines`, counts.longFunctions.length],
    [`files over ${LIMITS.fileLines} lines`, counts.longFiles.length],
  ];
  return rows.map(([title, count]) => [title, count.toLocaleString("en")]);
}

function cycleRow(cycle: MeasuredCycle): string[] {
  const { title, calls, functions, files, objects, first, deepest } = cycle;
  const figures = [calls, functions, files, objects, first.length, deepest.length];
  return [title, ...figures.map(String)];
}

/** Lists the counted places: forwarders, what is too long, and the frames of the commands. */
export function listsOf({ counts, cycles }: Metrics): string {
  const forwarders = counts.forwarders.map(({ place, name }) => `${place} ${name}`);
  const parts = [
    ["Forwarders", ...forwarders],
    ["Long functions and files", ...counts.longFunctions, ...counts.longFiles],
    ...cycles.flatMap(({ title, first, deepest }) => [
      [`${title}: frames of the first command`, ...first],
      [`${title}: frames of the deepest command`, ...deepest],
    ]),
  ];
  return parts.map(([title, ...lines]) =>
    [`### ${title}`, ...lines.map((line) => `- ${line}`)].join("\n")
  ).join("\n\n");
}

/** The page, for a commit. */
export function pageOf(metrics: Metrics, commit: string): string {
  return `# Metrics of the code

\`deno task metrics --write\` writes this page; do not edit it. The published code is that of commit
\`${commit}\`. Compare the numbers of two commits only if the same version of the command has counted them.

${tablesOf(metrics)}

### How it is counted

- **Published code** is what \`deno.json\` publishes, without generated files. Lines have no blanks and no
  comments; a line of more than 100 columns counts as the lines that it would fill.
- **Forwarders** are functions, methods and getters whose body is one call or read of another of our
  functions, with arguments that are only passed on, reordered or defaulted: see
  \`tools/metrics/forwarders.ts\`.
- **A cycle** is an acquire and a release of a lock with a new name. In a contended cycle, one instance
  holds the lock, another one waits in the queue, and both release it. A request is a \`POST\` on a real
  socket. Servers are those of the tests; Redis is used with ioredis.
- **Calls** are V8's call counts in published code: the difference between a round of cycles and one
  of twice as many, for each cycle. **Functions** and **files** are those that are called in at least
  every second cycle. **Objects** are instances of our classes.
- **Frames** are those of published code between the user's call and the write to a socket or the call of
  the file system, with the frames that await, as far as a stack trace shows them. The first command asks
  for the lock; the deepest one has the most frames.
- **Bytes** are all that the process allocates for a cycle, the client package included. *The client
  alone* is what that package allocates for the same two commands, with arguments that are ready: a lock
  that sends them through it needs at least that. *Ours* is the difference, so its error is that of both
  numbers, up to 20 %.
- Calls on ZooKeeper differ by up to 2 % between runs, by heartbeats and the deletion of idle znodes;
  bytes by up to 5 %. All other numbers are the same in each run.
`;
}
