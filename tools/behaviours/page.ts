/**
 * Writes the page of the behaviours: which of them the tests check, for what, and on which runtimes.
 *
 * @module
 */
import type { Listings, SuiteListing } from "./registrations.ts";

/** The letter of a runtime in a cell. */
interface Column {
  readonly letter: string;
  readonly title: string;
  is(runtime: string): boolean;
}

const startsWith = (start: string) => (runtime: string) => runtime.startsWith(start);
/** In the order of the letters. The oldest releases have a letter together: only the soak runs them. */
const COLUMNS: readonly Column[] = [
  { letter: "O", title: "oldest Node, Bun and Deno", is: isOldest },
  { letter: "D", title: "Deno", is: (runtime) => runtime === "Deno" },
  { letter: "2", title: "Node 22", is: startsWith("Node 22.") },
  { letter: "4", title: "Node 24", is: startsWith("Node 24.") },
  { letter: "6", title: "Node 26", is: startsWith("Node 26.") },
  { letter: "B", title: "Bun", is: startsWith("Bun ") },
];

const HEAD = `# Behaviours

The tests check these behaviours of every strategy, on every runtime that it supports; \`fake\` is the
[FakeLock](testing.md) for tests of your own. \`deno task behaviours\` writes this page from what the
test files register, and a test compares it with them.

`;

const LEGEND = `
## Each of them

The letters name the runtimes of \`deno task test\`: \`D\` is Deno, \`2\` Node 22, \`4\` Node 24, \`6\` Node
26, \`B\` Bun. Behind a \`+\` are those that only \`deno task soak\` adds; \`O\` stands for the oldest Node,
Bun and Deno. An empty cell is a behaviour that the strategy does not promise.

`;

/** Writes the page. */
export function behavioursPage({ usual, soak }: Listings): string {
  const runtimes = COLUMNS.map(({ title }) => title);
  const counts = usual.map((suite, i) => [
    suite.name,
    ...COLUMNS.map((column) => countCell(countOn(suite, column), countOn(soak[i]!, column))),
  ]);
  const names = [...new Set(soak.flatMap(({ runtimes }) => [...runtimes.values()].flat()))];
  const behaviours = names.map((name) => [
    name.replace(/\S+\[\S+\]\(\)/, "`$&`"), // otherwise it would be a link
    ...usual.map((suite, i) => letterCell(lettersOf(suite, name), lettersOf(soak[i]!, name))),
  ]);
  return HEAD + table(["number of behaviours", ...runtimes], counts) + LEGEND +
    table(["behaviour", ...usual.map(({ name }) => name)], behaviours);
}

function isOldest(runtime: string): boolean {
  return ["Node 22.12.", "Bun 1.3.", "Deno 2.8."].some((start) => runtime.startsWith(start));
}

function columnOf(runtime: string): Column {
  const column = COLUMNS.find((column) => column.is(runtime));
  if (column === undefined) throw new Error(`${runtime} has no column in tools/behaviours/page.ts`);
  return column;
}

function countOn({ runtimes }: SuiteListing, column: Column): number {
  const counts = [...runtimes].filter(([runtime]) => columnOf(runtime) === column)
    .map(([, behaviours]) => behaviours.length);
  return Math.max(0, ...counts);
}

function countCell(usual: number, soak: number): string {
  if (usual === soak) return usual === 0 ? "" : String(usual);
  return `${usual === 0 ? "" : `${usual}, `}soak ${soak}`;
}

function lettersOf({ runtimes }: SuiteListing, name: string): string[] {
  const columns = [...runtimes].filter(([, behaviours]) => behaviours.includes(name))
    .map(([runtime]) => columnOf(runtime));
  return COLUMNS.filter((column) => columns.includes(column)).map(({ letter }) => letter);
}

function letterCell(usual: readonly string[], soak: readonly string[]): string {
  const more = soak.filter((letter) => !usual.includes(letter));
  return usual.join("") + (more.length === 0 ? "" : `+${more.join("")}`);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]!.length), 3));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return `${[line(head), rule, ...rows.map(line)].join("\n")}\n`;
}
