/**
 * Writes the records of suites as raw numbers, tables and plots.
 *
 * @module
 */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { svgOf } from "./plots.ts";
import { parseResult, type SuiteRecord } from "./record.ts";
import { isWithin } from "./suite.ts";
import { markdownOf, number, type Table } from "./tables.ts";

/** Stores a record in a directory. */
export async function storeRecord(directory: string, record: SuiteRecord): Promise<string> {
  await mkdir(directory, { recursive: true });
  const file = `${directory}/${record.suite}.json`;
  await writeFile(file, `${JSON.stringify(rounded(record), null, 1)}\n`);
  return file;
}

/** More digits say nothing, and make the files long. */
function rounded(record: SuiteRecord): SuiteRecord {
  const round = (value: number) => Number(value.toPrecision(4)); // NaN becomes null in JSON
  return {
    ...record,
    figures: record.figures.map((figure) => ({ ...figure, values: figure.values.map(round) })),
    plots: record.plots.map((plot) => ({
      ...plot,
      points: plot.points.map((point) => ({ ...point, y: round(point.y) })),
    })),
  };
}

/** Writes a page for each record in a directory, and a page that lists them. Returns the files. */
export async function writePages(directory: string, order: readonly string[]): Promise<string[]> {
  const records = await readRecords(directory, order);
  const files: string[] = [];
  const write = async (name: string, text: string) => {
    files.push(`${directory}/${name}`);
    await writeFile(files.at(-1)!, text);
  };
  for (const record of records) {
    for (const plot of record.plots) await write(`${plot.name}.svg`, await svgOf(plot));
    await write(`${record.suite}.md`, pageOf(record));
  }
  await write("README.md", indexOf(records));
  return files;
}

/** Reads the records in a directory. */
export async function readRecords(
  directory: string,
  order: readonly string[],
): Promise<SuiteRecord[]> {
  const names = new Set(await readdir(directory));
  const stored = order.filter((suite) => names.has(`${suite}.json`));
  return await Promise.all(
    stored.map(async (suite) => parseResult(await readFile(`${directory}/${suite}.json`, "utf8"))),
  );
}

function pageOf(record: SuiteRecord): string {
  const pictures = record.plots.map(({ name, title }) => `![${title}](${name}.svg)`);
  const sections = [
    `# ${record.title}`,
    ...record.notes,
    ...pictures,
    ...record.verdicts.length > 0 ? [markdownOf(verdictTable(record))] : [],
    ...record.tables.map(markdownOf),
    markdownOf(conditions(record)),
    `The numbers of all rounds: [${record.suite}.json](${record.suite}.json).`,
  ];
  return `${sections.join("\n\n")}\n`;
}

function verdictTable({ verdicts }: SuiteRecord): Table {
  const rows = verdicts.map((verdict) => [
    verdict.title,
    number(verdict.value),
    String(verdict.limit),
    isWithin(verdict) ? "within" : "**over**",
  ]);
  return { title: "Limits", rows: [["figure", "value", "limit", "verdict"], ...rows] };
}

function conditions({ command, machine, seconds, versions = {} }: SuiteRecord): Table {
  const { date, commit, cpu, memory, system, load } = machine;
  const programs = Object.entries({ ...machine.versions, ...versions })
    .map(([name, version]) => `${name} ${version}`).join(", ");
  return {
    title: "How it was measured",
    rows: [
      ["what", "value"],
      ["command", `\`${command}\``],
      ["when", `${date} UTC, in ${seconds} s`],
      ["commit", commit],
      ["machine", `${cpu}, ${memory}, ${system}, load ${load} at the start`],
      ["versions", programs],
    ],
  };
}

function indexOf(records: readonly SuiteRecord[]): string {
  const rows = records.map(({ suite, title, machine, options, verdicts }) => [
    `[${title}](${suite}.md)`,
    `${machine.date}${options.isQuick ? ", quick" : ""}`,
    verdicts.length === 0 ? "–" : `${verdicts.filter(isWithin).length} of ${verdicts.length}`,
  ]);
  const table: Table = {
    title: "Suites",
    rows: [["suite", "measured", "within their limits"], ...rows],
  };
  return [
    "# Benchmarks",
    "`deno task bench` writes all files of this folder; do not edit them. Each page names its command, " +
    "its machine and all versions. Ratios are medians of interleaved rounds, with their quartiles.",
    markdownOf(table),
    "`bench/README.md` says how the contenders are set up, and what is not measured.\n",
  ].join("\n\n");
}
