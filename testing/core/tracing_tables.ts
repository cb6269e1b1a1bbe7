/**
 * Reads the tables of `docs/tracing.md` that say what is published on the channels.
 *
 * @module
 */
import { assertEquals } from "@std/assert";

const PAGE = new URL("../../docs/tracing.md", import.meta.url);

/**
 * Returns the rows of a table by their first cells, each with its other cells.
 *
 * @param head The first cell of the table's head.
 */
export function documentedRows(head: string): Map<string, string[]> {
  const page = Deno.readTextFileSync(PAGE);
  const table = page.split(`\n| ${head} `)[1]!.split("\n\n", 1)[0]!.split("\n").slice(2);
  return new Map(table.map((line) => {
    const [what, ...published] = line.split("|").slice(1, -1).map((cell) => cell.trim());
    return [what!, published];
  }));
}

/** Asserts that exactly these channels have told of something, each once for each time that a cell names it. */
export function assertPublished(order: readonly string[], cell: string): void {
  assertEquals(order.toSorted(), cell.split(", ").toSorted());
}
