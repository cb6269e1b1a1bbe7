/**
 * The tables and the plot of the benchmark that README shows, in English and in Chinese, from the records
 * in `docs/bench/`.
 *
 * @module
 */
import { readFile, writeFile } from "node:fs/promises";
import type { Figure } from "./library/figures.ts";
import { valuesOf } from "./library/figures.ts";
import type { SuiteRecord } from "./library/record.ts";
import { median, ratios } from "./library/statistics.ts";
import { number, rowsText } from "./library/tables.ts";
import {
  PLOT,
  PRINTED_BY,
  type Row,
  type SummaryTable,
  TABLES,
  type Text,
} from "./summary_tables.ts";

/** The marks around the text that {@linkcode updateSummary} writes. */
export const MARKS = { begin: "<!-- bench: begin -->", end: "<!-- bench: end -->" } as const;

/** A language of README. */
export type Language = keyof Text;
/** The file of each language. */
export const READMES: Readonly<Record<Language, string>> = {
  en: "README.md",
  zh: "README.zh-CN.md",
};

type Suites = ReadonlyMap<string, SuiteRecord>;

/** The text for the README of a language. */
export function summaryOf(records: readonly SuiteRecord[], language: Language): string {
  const suites = new Map(records.map((record) => [record.suite, record]));
  return [
    introOf(machineOf(records))[language],
    ...TABLES.flatMap((table) => tableOf(table, suites, language)),
    `![${PLOT[language]}](docs/bench/contended.svg)`,
  ].join("\n\n");
}

function introOf(machine: string): Text {
  return {
    en: `Medians on ${machine}, with ioredis where the row names no client:`,
    zh: `${machine} 上的中位数；未注明客户端的行使用 ioredis：`,
  };
}

/** A table as Markdown; none if nothing of it was measured. */
function tableOf(table: SummaryTable, suites: Suites, language: Language): string[] {
  const rows = table.rows.flatMap((row) => {
    const record = suites.get(row.suite);
    if (record === undefined) return [];
    const cells = table.contenders.map((contender) => cellOf(record.figures, row, contender));
    return [[row.title[language], ...cells, `\`${record.command}\``]];
  });
  if (rows.length === 0) return [];
  return [rowsText([[table.title[language], ...table.contenders, PRINTED_BY[language]], ...rows])];
}

function cellOf(
  figures: readonly Figure[],
  { places, measure, isRatio = false }: Row,
  contender: string,
): string {
  const cells = places.map((at) => {
    const values = valuesOf(figures, { contender, measure, at });
    const bare = isRatio ? valuesOf(figures, { contender: "raw", measure, at }) : [];
    return number(median(isRatio ? ratios(values, bare) : values));
  });
  return cells.every((cell) => cell === "–") ? "–" : cells.join(" / ");
}

function machineOf([first]: readonly SuiteRecord[]): string {
  return first === undefined ? "nothing measured" : first.machine.cpu;
}

/** Replaces the text between the marks of the READMEs. Returns their names. */
export async function updateSummary(records: readonly SuiteRecord[]): Promise<string[]> {
  const languages = Object.keys(READMES) as Language[];
  return await Promise.all(languages.map(async (language) => {
    const file = READMES[language];
    const text = await readFile(file, "utf8");
    const [begin, end] = [text.indexOf(MARKS.begin), text.indexOf(MARKS.end)];
    if (begin === -1 || end < begin) throw new Error(`Cannot update ${file}: it has no marks`);
    const head = text.slice(0, begin + MARKS.begin.length);
    await writeFile(file, `${head}\n\n${summaryOf(records, language)}\n\n${text.slice(end)}`);
    return file;
  }));
}
