/**
 * `deno task bench`: runs the suites of the benchmark, each in its own process, and writes the report.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { readFile, rm } from "node:fs/promises";
import { makeTempDirectory } from "../testing/runtime/temporary_files.ts";
import { scriptCommand, spawnProcess } from "../testing/runtime/processes.ts";
import { runCommand } from "../testing/servers/command.ts";
import { type BenchCommand, readCommand, REPORT, usageOf } from "./command_line.ts";
import { describeMachine } from "./library/machine.ts";
import { parseResult, type SuiteRecord } from "./library/record.ts";
import { readRecords, storeRecord, writePages } from "./library/report.ts";
import { isWithin, type Suite, type SuiteOptions, type SuiteResult } from "./library/suite.ts";
import { markdownOf, number } from "./library/tables.ts";
import { SUITES } from "./suites/all.ts";
import { updateSummary } from "./summary.ts";

const NAMES = SUITES.map(({ name }) => name);
const FORMAT_BOUND_MS = 60_000;

/** Runs a suite in its own process. */
async function run(suite: Suite, options: SuiteOptions): Promise<SuiteRecord> {
  const machine = await describeMachine();
  const startMs = performance.now();
  const result = await resultOf(suite, options);
  return {
    ...{ suite: suite.name, title: suite.title, command: commandOf(suite, options), options },
    ...{ machine, seconds: Math.round((performance.now() - startMs) / 1_000) },
    ...result,
  };
}

async function resultOf({ name }: Suite, options: SuiteOptions): Promise<SuiteResult> {
  const directory = await makeTempDirectory();
  try {
    const file = `${directory}/result.json`;
    const script = scriptCommand(new URL("./suite_process.ts", import.meta.url));
    const command = [...script, name, JSON.stringify(options), file];
    const child = spawnProcess(command, { stdout: "inherit", stderr: "inherit" });
    const { code } = await child.ended;
    if (code !== 0) throw new Error(`Cannot measure ${name}: its process ended with ${code}`);
    return parseResult<SuiteResult>(await readFile(file, "utf8"));
  } finally {
    await rm(directory, { recursive: true });
  }
}

function commandOf({ name }: Suite, { isQuick, rounds, clients }: SuiteOptions): string {
  const parts = ["deno task bench", name];
  if (isQuick) parts.push("--quick");
  if (rounds !== undefined) parts.push(`--rounds ${rounds}`);
  if (clients !== 1) parts.push(`--clients ${clients}`);
  return parts.join(" ");
}

/** Prints the tables of a suite; returns whether all figures are within their limits. */
function print({ title, tables, verdicts }: SuiteRecord): boolean {
  console.log(`\n## ${title}\n`);
  for (const table of tables) console.log(`${markdownOf(table)}\n`);
  for (const verdict of verdicts) {
    const text = isWithin(verdict) ? "within its limit of" : "OVER its limit of";
    console.log(`${verdict.title}: ${number(verdict.value)}, ${text} ${verdict.limit}`);
  }
  return verdicts.every(isWithin);
}

/** Measures, and writes the report after each suite. Returns the exit code. */
async function measure({ suites, out, options }: BenchCommand): Promise<number> {
  let exitCode = 0;
  for (const suite of SUITES.filter(({ name }) => suites.includes(name))) {
    try {
      const record = await run(suite, options);
      if (!print(record)) exitCode = 1;
      const stored = await storeRecord(out, record);
      await format([stored, ...await writeReport(out)]);
    } catch (error) {
      console.error(`${suite.name}: ${(error as Error).message}`);
      exitCode = 1;
    }
  }
  console.log(`\nThe report is in ${out}`);
  return exitCode;
}

/** Writes the pages of a directory, and the tables of the READMEs if they are their source. */
async function writeReport(out: string): Promise<string[]> {
  const files = await writePages(out, NAMES);
  if (out !== REPORT) return files;
  return [...files, ...await updateSummary(await readRecords(out, NAMES))];
}

/** The gate checks the format of all files, these too. */
async function format(files: readonly string[]): Promise<void> {
  const { success, output } = await runCommand(
    [Deno.execPath(), "fmt", "-q", ...files.filter((file) => !file.endsWith(".svg"))],
    FORMAT_BOUND_MS,
  );
  if (!success) throw new Error(`Cannot format the report: ${output}`);
}

async function main(): Promise<number> {
  let command: BenchCommand | null;
  try {
    command = readCommand(Deno.args, NAMES);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usageOf(NAMES)}`);
    return 2;
  }
  if (command === null) {
    console.log(usageOf(NAMES));
    return 0;
  }
  if (!command.isRender) return await measure(command);
  await format(await writeReport(command.out));
  return 0;
}

if (import.meta.main) Deno.exit(await main());
