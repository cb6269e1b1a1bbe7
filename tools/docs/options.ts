/**
 * Writes the page of all options: a table for each call, made of the comments of its interfaces. Which
 * tables there are is in `option_tables.ts`.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { ApiSymbol, Declaration, Node } from "./api.ts";
import type { OptionTable } from "./option_tables.ts";
import { type ParameterNode, parametersText, type TypeNode, typeText } from "./types.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LINK = /\{@(?:linkcode|link)\s+([^\s}]+)\}/g;
/** The end of a sentence: what follows is another one. */
const SENTENCE_END = /\.(?=\s|$)/;
/** A default in words. The tag is known only if its text is in braces, as that of a value in code. */
const DEFAULT_IN_WORDS = /^@default\s+([^]+)$/;

/** An option as `deno doc --json` describes it: a property, or a method. */
interface Option extends Node {
  readonly name: string;
  readonly optional?: boolean;
  readonly tsType?: TypeNode;
  readonly returnType?: TypeNode;
}

/** Writes the page. Its tables are aligned as `deno fmt` wants them. */
export function optionsPage(
  head: string,
  tables: readonly OptionTable[],
  symbols: readonly ApiSymbol[],
): string {
  const text = tables.flatMap((table) => ["", ...tableLines(table, symbols)]);
  return execFileSync(process.execPath, ["fmt", "--ext", "md", "-"], {
    cwd: ROOT,
    encoding: "utf8",
    input: [head, ...text, ""].join("\n"),
  });
}

/** The interfaces whose names end in `Options` and that no table has, and no symbol of `except`. */
export function withoutTable(
  tables: readonly OptionTable[],
  symbols: readonly ApiSymbol[],
  except: readonly string[],
): string[] {
  const known = new Set([...tables.flatMap(({ of }) => of), ...except]);
  return symbols.filter((symbol) => symbol.name.endsWith("Options") && optionsOf(symbol).length > 0)
    .map(({ name }) => name).filter((name) => !known.has(name)).toSorted();
}

/**
 * Writes a heading, a text and a table. An option that several interfaces have is written once.
 *
 * @throws {Error} If an interface is not exported, or an option has no comment.
 */
function tableLines({ title, text, of }: OptionTable, symbols: readonly ApiSymbol[]): string[] {
  const options = new Map<string, string>();
  for (const name of of) {
    const symbol = symbols.find((each) => each.name === name);
    if (symbol === undefined) throw new Error(`Cannot write the options: nothing exports ${name}`);
    for (const option of optionsOf(symbol)) {
      if (!options.has(option.name)) options.set(option.name, rowOf(name, option));
    }
  }
  const rows = ["| option | type | default | unit | meaning |", "| - | - | - | - | - |"];
  const level = of.length === 0 ? "##" : "###";
  return [
    `${level} ${title}`,
    ...text === undefined ? [] : ["", text],
    ...of.length === 0 ? [] : ["", ...rows, ...options.values()],
  ];
}

/** The options of an interface. */
export function optionsOf({ declarations }: ApiSymbol): Option[] {
  return declarations.filter(({ kind }) => kind === "interface")
    .flatMap(({ def = {} }: Declaration) =>
      [...def.properties ?? [], ...def.methods ?? []] as readonly Option[]
    );
}

function rowOf(owner: string, option: Option): string {
  const { name, jsDoc } = option;
  const meaning = firstSentence(jsDoc?.doc ?? "");
  if (meaning === "") throw new Error(`Cannot write ${owner}.${name}: it has no comment`);
  const unit = name.endsWith("Ms") ? "ms" : "";
  const cells = [`\`${name}\``, `\`${optionType(option)}\``, defaultOf(option), unit, meaning];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

/** The first sentence of a comment, without the unit, which has a column of its own. */
export function firstSentence(doc: string): string {
  const text = inOneLine(doc);
  const end = SENTENCE_END.exec(text)?.index ?? text.length;
  return text.slice(0, end).replace(/,? in ms\b,?/, "");
}

function inOneLine(text: string): string {
  return text.replaceAll(LINK, "`$1`").replaceAll(/\s+/g, " ").trim();
}

/** The type of a value that is given; a method is a function. */
function optionType({ tsType, params, returnType }: Option): string {
  if (tsType === undefined) {
    const parameters = parametersText({ params: (params ?? []) as readonly ParameterNode[] });
    return `${parameters} => ${typeText(returnType)}`;
  }
  if (tsType.kind !== "union") return typeText(tsType);
  const parts = tsType.value as readonly TypeNode[];
  const [part, ...others] = parts.filter(({ repr }) => repr !== "undefined");
  if (others.length > 0) return [part, ...others].map(typeText).join(" | ");
  return typeText(part?.kind === "parenthesized" ? part.value as TypeNode : part);
}

function defaultOf({ optional = false, jsDoc }: Option): string {
  for (const { kind, value = "" } of jsDoc?.tags ?? []) {
    if (kind === "default") return `\`${value}\``;
    const words = kind === "unsupported" ? DEFAULT_IN_WORDS.exec(value)?.[1] : undefined;
    if (words !== undefined) return inOneLine(words).replace(/\.$/, "");
  }
  return optional ? "-" : "required";
}
