/**
 * `deno task api`: writes the public API, as `deno doc --json` reads it, to `docs/api.txt`, and the
 * options to `docs/options.md`. With `--check` it compares instead, and fails if one of them has changed.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { readApi, readDocumentation } from "./docs/api.ts";
import { HEAD as OPTIONS_HEAD, NOT_LISTED, TABLES } from "./docs/option_tables.ts";
import { optionsPage, withoutTable } from "./docs/options.ts";
import { signaturesOf, type SymbolNode } from "./docs/signatures.ts";

const ROOT = new URL("../", import.meta.url);
const FROZEN = new URL("docs/api.txt", ROOT);
const OPTIONS = new URL("docs/options.md", ROOT);
const HEAD =
  "The public API: each entry with what it exports. `deno task api` writes this file, and " +
  "the\ngate compares it with the code. A line that changes or goes is a change for our users.\n";
const USAGE = `Usage: deno task api [--check]

Writes docs/api.txt and docs/options.md. With --check, compares them with the code and writes nothing.`;

/** The name of each entry, and the module that it names. */
export type Entries = Readonly<Record<string, string>>;

/** Writes what all entries export, an entry after the other. Modules are relative to the root. */
export function apiText(entries: Entries): string {
  const nodes = readDocumentation<SymbolNode>(Object.values(entries));
  const parts = Object.entries(entries).map(([name, module]) => {
    const symbols = nodes[new URL(module, ROOT).href]?.symbols;
    if (symbols === undefined) throw new Error(`Cannot find ${module} in the output of deno doc`);
    return [`# ${name}`, "", ...signaturesOf(symbols), ""].join("\n");
  });
  return [HEAD, ...parts].join("\n");
}

/** The lines that only one of two texts has, marked as a diff does; each under its symbol. */
export function differences(frozen: string, current: string): string[] {
  const before = namedLines(frozen);
  const after = namedLines(current);
  const only = (lines: readonly string[], others: readonly string[], mark: string) =>
    lines.filter((line) => !others.includes(line)).map((line) => `${mark} ${line}`);
  return [...only(before, after, "-"), ...only(after, before, "+")];
}

/** The lines of a text, each with its entry, and a member with its symbol. */
function namedLines(text: string): string[] {
  let entry = "";
  let symbol = "";
  return text.split("\n").flatMap((line) => {
    if (line.startsWith("# ")) entry = line.slice(2);
    else if (line.startsWith("  ")) return [`${entry}: ${symbol}: ${line.trim()}`];
    else if (entry !== "" && line !== "") {
      symbol = /^(?:\w+ )+?(\w+)/.exec(line.replace(/ (?:extends|implements) .*$/, ""))?.[1] ??
        line;
      return [`${entry}: ${line}`];
    }
    return [];
  });
}

/** The entries of `deno.json`, named as users import them. */
function publicEntries(): Entries {
  const { name, exports } = JSON.parse(readFileSync(new URL("deno.json", ROOT), "utf8")) as {
    name: string;
    exports: Record<string, string>;
  };
  return Object.fromEntries(
    Object.entries(exports).map(([path, module]) => [name + path.slice(1), module]),
  );
}

function main(args: readonly string[]): number {
  if (args.some((arg) => arg !== "--check")) {
    const isHelp = args.includes("--help");
    if (isHelp) console.log(USAGE);
    else console.error(`Unknown option "${args.find((arg) => arg !== "--check")}"\n\n${USAGE}`);
    return isHelp ? 0 : 2;
  }
  const api = apiText(publicEntries());
  const options = optionsText();
  if (args.includes("--check")) {
    const problems = [...apiProblems(api), ...optionsProblems(options)];
    if (problems.length > 0) console.error(problems.join("\n"));
    return problems.length > 0 ? 1 : 0;
  }
  writeFileSync(FROZEN, api);
  writeFileSync(OPTIONS, options);
  return 0;
}

/**
 * Writes the page of all options.
 *
 * @throws {Error} If an interface of options is in no table.
 */
function optionsText(): string {
  const symbols = readApi();
  const missing = withoutTable(TABLES, symbols, NOT_LISTED);
  if (missing.length === 0) return optionsPage(OPTIONS_HEAD, TABLES, symbols);
  throw new Error(
    `Cannot write docs/options.md: add ${missing.join(", ")} to tools/docs/option_tables.ts`,
  );
}

function apiProblems(current: string): string[] {
  const frozen = readFileSync(FROZEN, "utf8");
  if (frozen === current) return [];
  return [
    ...differences(frozen, current),
    `${fileURLToPath(FROZEN)} is not what the code exports: if the change is meant, run ` +
    '"deno task api", and say in CHANGELOG.md what users have to change',
  ];
}

function optionsProblems(current: string): string[] {
  if (readFileSync(OPTIONS, "utf8") === current) return [];
  return [`${fileURLToPath(OPTIONS)} is not what the comments say: run "deno task api"`];
}

if (import.meta.main) process.exit(main(process.argv.slice(2)));
