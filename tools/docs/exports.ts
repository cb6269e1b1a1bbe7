/**
 * Judges the documentation of all that the entries of `deno.json` export, as `deno doc --json` has
 * it: examples, errors and units.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url);

/** A comment, in parts. */
export interface Doc {
  readonly doc?: string;
  readonly tags?: readonly DocTag[];
}

/** A tag of a comment. */
interface DocTag {
  readonly kind: string;
  readonly name?: string;
  readonly doc?: string;
  readonly tsType?: unknown;
}

/** Something with a name and a comment: a function, a method, a property, a parameter. */
export interface DocNode {
  readonly name?: string;
  readonly jsDoc?: Doc;
  /** `deno doc` counts lines from 0. */
  readonly location?: { readonly filename: string; readonly line: number };
  readonly accessibility?: string;
  readonly params?: readonly DocNode[];
  readonly functionDef?: { readonly params?: readonly DocNode[] };
  readonly tsType?: { readonly repr?: string };
}

interface Declaration extends DocNode {
  readonly kind: string;
  readonly def?: {
    readonly params?: readonly DocNode[];
    readonly constructors?: readonly DocNode[];
    readonly methods?: readonly DocNode[];
    readonly properties?: readonly DocNode[];
  };
}

/** An exported symbol; overloads are several declarations. */
interface ExportedSymbol {
  readonly name: string;
  readonly declarations: readonly Declaration[];
}

/** A function, a constructor, a method or a class, with all its declarations. */
interface Documented {
  /** As a reader would write it: `RedisLock.attach()`. */
  readonly title: string;
  readonly nodes: readonly DocNode[];
}

/** What `deno doc --json` prints, as far as it is used. */
export interface DocOutput {
  readonly nodes: Readonly<Record<string, { readonly symbols: readonly ExportedSymbol[] }>>;
}

/** What is wrong, each as `file:line: symbol has no …`. */
export interface DocFindings {
  readonly withoutExample: readonly string[];
  readonly withoutErrors: readonly string[];
  readonly withoutUnit: readonly string[];
  /** How many functions and classes were looked at. */
  readonly symbolCount: number;
}

/** A statement that throws, or a call of a function that exists to throw. */
const THROWS = /\bthrow\b|\b(?:check[A-Z]\w*|read(?:Options|Settings)|throwIf\w+)\(/;
/** A comment that refers to the method of an interface, whose errors it then has. */
const REFERENCE = /\bSee\s+\{@linkcode\s+([\w.]+)\}/;
const DURATION = /(?:Ms|[tT]imeout|[iI]nterval|[dD]elay|[tT]tl|_MS)$/;
/** The unit, or a link to the option that names it. */
const UNIT = /\bms\b|\bmilliseconds?\b|\{@linkcode\s+\w+\.\w+Ms\}/;

/** Runs `deno doc` on all entries. */
export function readDocs(): DocOutput {
  const { exports } = JSON.parse(readFileSync(new URL("deno.json", ROOT), "utf8")) as {
    exports: Record<string, string>;
  };
  const output = execFileSync(process.execPath, ["doc", "--json", ...Object.values(exports)], {
    cwd: fileURLToPath(ROOT),
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  return JSON.parse(output) as DocOutput;
}

/** Judges the symbols. `read` returns the text of a file, by its URL. */
export function judgeDocs(
  { nodes }: DocOutput,
  read: (url: string) => string = (url) => readFileSync(new URL(url), "utf8"),
): DocFindings {
  const symbols = Object.values(nodes).flatMap((module) => module.symbols);
  const all = symbols.filter(({ declarations }) => declarations.some(isCode));
  const callables = all.flatMap(callablesOf);
  const errorsOf = errorsByTitle(symbols);
  const findings = (list: Documented[], problem: string) =>
    [...new Set(list.map((item) => `${placeOf(item)}: ${item.title} ${problem}`))];
  return {
    symbolCount: all.length,
    withoutExample: findings(
      all.map(whole).filter(({ nodes }) => !nodes.some(hasExample)),
      "has no @example",
    ),
    withoutErrors: findings(
      callables.filter((item) => throwsErrors(item, read) && !namesErrors(item, errorsOf)),
      "throws and has no @throws",
    ),
    withoutUnit: findings(
      symbols.flatMap(durationsOf).filter(({ nodes }) => !nodes.some(namesUnit)),
      "has no unit",
    ),
  };
}

function isCode({ kind }: Declaration): boolean {
  return kind === "function" || kind === "class";
}

function whole({ name, declarations }: ExportedSymbol): Documented {
  return { title: name, nodes: declarations };
}

/** The functions that can be called: the function itself, or a class's constructors and methods. */
function callablesOf(symbol: ExportedSymbol): Documented[] {
  return symbol.declarations.some(({ kind }) => kind === "function")
    ? [{ ...whole(symbol), title: `${symbol.name}()` }]
    : membersOf(symbol);
}

function membersOf({ name, declarations }: ExportedSymbol): Documented[] {
  const members = new Map<string, DocNode[]>();
  for (const { def = {} } of declarations) {
    for (const node of [...def.constructors ?? [], ...def.methods ?? []]) {
      if (node.accessibility === "private") continue;
      const title = node.name === "constructor" ? `new ${name}()` : `${name}.${node.name}()`;
      members.set(title, [...members.get(title) ?? [], node]);
    }
  }
  return [...members].map(([title, nodes]) => ({ title, nodes }));
}

function hasExample({ jsDoc }: DocNode): boolean {
  return tagsOf(jsDoc, "example").some(({ doc = "" }) => doc.includes("```"));
}

function tagsOf(jsDoc: Doc | undefined, kind: string): DocTag[] {
  return (jsDoc?.tags ?? []).filter((tag) => tag.kind === kind);
}

function hasErrors({ jsDoc }: DocNode): boolean {
  return tagsOf(jsDoc, "throws").some(({ tsType }) => tsType !== undefined);
}

/** Which methods of all symbols name their errors, as `DistributedLock.acquire`. */
function errorsByTitle(symbols: readonly ExportedSymbol[]): Set<string> {
  const documented = symbols.flatMap(membersOf).filter(({ nodes }) => nodes.some(hasErrors));
  return new Set(documented.map(({ title }) => title.replace("()", "")));
}

function namesErrors({ nodes }: Documented, errorsOf: ReadonlySet<string>): boolean {
  return nodes.some((node) => {
    const reference = REFERENCE.exec(node.jsDoc?.doc ?? "")?.[1];
    return hasErrors(node) || reference !== undefined && errorsOf.has(reference);
  });
}

function throwsErrors({ nodes }: Documented, read: (url: string) => string): boolean {
  return nodes.some(({ location }) =>
    location !== undefined && THROWS.test(bodyAt(read(location.filename), location.line))
  );
}

/** A declaration from its first line to the line that ends it: a brace under its own indentation. */
function bodyAt(source: string, line: number): string {
  const [first = "", ...rest] = source.split("\n").slice(line);
  const indentation = /^\s*/.exec(first)![0];
  const end = rest.findIndex((text) => text === `${indentation}}`);
  return [first, ...rest.slice(0, end)].filter((text) => !/^\s*(\/\/|\/?\*)/.test(text)).join("\n");
}

/** All numbers that are durations: constants, properties, and the parameters of functions. */
function durationsOf(symbol: ExportedSymbol): Documented[] {
  const { name, declarations } = symbol;
  const variables = declarations.filter(({ kind }) => kind === "variable");
  const properties = declarations.flatMap(({ def }) => def?.properties ?? []);
  const parameters = declarations.flatMap(({ def }) => [
    ...def?.params ?? [],
    ...[...def?.constructors ?? [], ...def?.methods ?? []].flatMap(parametersOf),
  ]);
  const named = (node: DocNode, title: string) => ({ title, nodes: [node] });
  return [
    ...variables.map((node) => named(node, name)),
    ...properties.map((node) => named(node, `${name}.${node.name}`)),
    ...parameters.map((node) => named(node, `${name}: ${node.name}`)),
  ].filter(({ title }) => DURATION.test(title));
}

/** The parameters with the comment that their tags make. */
function parametersOf({ params, functionDef, jsDoc, location }: DocNode): DocNode[] {
  return (params ?? functionDef?.params ?? []).map((param) => {
    const tag = tagsOf(jsDoc, "param").find(({ name }) => name === param.name);
    return { ...param, ...location && { location }, jsDoc: { doc: tag?.doc ?? "" } };
  });
}

function namesUnit({ jsDoc }: DocNode): boolean {
  return UNIT.test(jsDoc?.doc ?? "");
}

function placeOf({ nodes }: Documented): string {
  const { filename = "", line = 0 } = nodes.find(({ location }) => location)?.location ?? {};
  return `${filename.replace(ROOT.href, "")}:${line + 1}`;
}
