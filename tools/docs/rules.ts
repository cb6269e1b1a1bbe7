/**
 * The rules for the comments of all that is exported: an example, the errors, the units.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import {
  type ApiSymbol,
  callablesOf,
  type Documented,
  isCode,
  type Node,
  parentsOf,
  placeOf,
  tagsOf,
  valuesOf,
} from "./api.ts";

/** A statement that throws, or a call of a function that exists to throw. */
const THROWS = /\bthrow\b|\b(?:check[A-Z]\w*|read(?:Options|Settings)|throwIf\w+)\(|#check\w*\(/;
/** A method whose comment has the errors: "See {@linkcode DistributedLock.acquire}". */
const REFERENCE = /\b(?:See|As)\s+\{@linkcode\s+(\w+)\.(\w+)\}/;
const DURATION = /(?:Ms|_MS|[tT]imeout|[iI]nterval|[dD]elay|[dD]uration|[tT]tl)$/;
/** The unit, or a link to the option that has it. */
const UNIT = /\bms\b|\bmilliseconds?\b|\{@linkcode\s+\w+\.\w+Ms\}/;

/** Functions and classes without an example, each as `file:line: name`. */
export function withoutExample(symbols: readonly ApiSymbol[]): string[] {
  return symbols.filter(isCode)
    .filter(({ declarations }) => !declarations.some(hasExample))
    .map(({ name, declarations }) => lineOf({ title: name, nodes: declarations }));
}

function hasExample({ jsDoc }: Node): boolean {
  return tagsOf(jsDoc, "example").some(({ doc = "" }) => doc.includes("```ts"));
}

/**
 * Functions, constructors and methods that throw, by their own text, and whose comment says neither
 * which errors nor which method has them.
 */
export function withoutErrors(symbols: readonly ApiSymbol[]): string[] {
  const methods = methodsOf(symbols);
  return symbols.filter(isCode).flatMap(callablesOf)
    .filter((documented) => canThrow(documented) && !hasErrors(documented, methods))
    .map(lineOf);
}

/** All methods by their titles, those that an interface inherits too. */
function methodsOf(symbols: readonly ApiSymbol[]): Map<string, Documented> {
  const own = symbols.flatMap(callablesOf).map((method) => [method.title, method] as const);
  const inherited = symbols.flatMap((symbol) =>
    parentsOf(symbol).flatMap((parent) =>
      own.filter(([title]) => title.startsWith(`${parent}.`)).map(([title, method]) =>
        [title.replace(parent, symbol.name), method] as const
      )
    )
  );
  return new Map([...inherited, ...own]);
}

function canThrow({ nodes }: Documented): boolean {
  return nodes.some(({ location }) => {
    if (location === undefined) return false;
    const source = readFileSync(new URL(location.filename), "utf8");
    return THROWS.test(codeAt(source, location.line));
  });
}

/** A declaration from its line to its last one: a brace under its own indentation. */
function codeAt(source: string, line: number): string {
  const [first = "", ...rest] = source.split("\n").slice(line);
  const indentation = /^\s*/.exec(first)![0];
  const end = rest.indexOf(`${indentation}}`);
  const lines = [first, ...rest.slice(0, Math.max(end, 0))];
  return lines.filter((text) => !/^\s*(?:\/\/|\/?\*)/.test(text)).join("\n");
}

function hasErrors({ nodes }: Documented, methods: ReadonlyMap<string, Documented>): boolean {
  return nodes.some(({ jsDoc }) => {
    if (tagsOf(jsDoc, "throws").some(({ tsType }) => tsType !== undefined)) return true;
    const [, type, method] = REFERENCE.exec(jsDoc?.doc ?? "") ?? [];
    const referred = methods.get(`${type}.${method}()`);
    return referred !== undefined && hasErrors(referred, methods);
  });
}

/** Constants, properties and parameters that are durations and say no unit. */
export function withoutUnit(symbols: readonly ApiSymbol[]): string[] {
  return symbols.flatMap(valuesOf)
    .filter(({ title, nodes }) => DURATION.test(title) && !nodes.some(hasUnit))
    .map(lineOf);
}

function hasUnit({ jsDoc }: Node): boolean {
  return UNIT.test(jsDoc?.doc ?? "");
}

function lineOf(documented: Documented): string {
  return `${placeOf(documented)}: ${documented.title}`;
}
