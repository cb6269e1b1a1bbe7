/**
 * Tables of figures, as Markdown.
 *
 * @module
 */
import { type Quartiles, quartiles } from "./statistics.ts";

/** A table. The first row is the head. */
export interface Table {
  readonly title: string;
  /** A sentence or two on how to read it. */
  readonly note?: string;
  readonly rows: readonly (readonly string[])[];
}

/** A table as Markdown, with its title. */
export function markdownOf({ title, note, rows }: Table): string {
  return [`### ${title}`, ...note ? [note] : [], rowsText(rows)].join("\n\n");
}

/** The rows of a table as Markdown. */
export function rowsText([head = [], ...body]: Table["rows"]): string {
  return [head, head.map((_, column) => column === 0 ? "---" : "---:"), ...body]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** A number with about three digits; a dash if there is none. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1_000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** The median of values. */
export function medianCell(values: readonly number[]): string {
  return values.length === 0 ? "–" : number(quartiles(values).median);
}

/** The median of values with their quartiles. */
export function quartilesCell(values: readonly number[]): string {
  if (values.length === 0) return "–";
  return quartilesText(quartiles(values));
}

function quartilesText({ low, median, high }: Quartiles): string {
  return `${number(median)} (${number(low)}–${number(high)})`;
}
