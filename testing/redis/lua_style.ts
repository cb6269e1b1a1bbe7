/**
 * House rules for Lua scripts, checked on their tokens.
 *
 * @module
 */

/** The names that a file may use besides its own, and whether it may read its inputs. */
export interface LuaRules {
  /** Names of the parts that the file includes. */
  readonly includedNames: ReadonlySet<string>;
  /** A part gets everything by parameters; a script reads `KEYS` and `ARGV` into locals. */
  readonly isPart: boolean;
}

interface Token {
  readonly kind: "string" | "number" | "name" | "symbol";
  readonly text: string;
  readonly line: number;
  /** The line of the top-level function that it is in, or {@linkcode FILE_SCOPE}. */
  readonly scope: number;
}

const FILE_SCOPE = 0;
const TOKEN =
  /(?<comment>--[^\n]*)|(?<string>'(?:[^'\\]|\\.)*')|(?<number>\d+(?:\.\d+)?)|(?<name>[A-Za-z_]\w*)|(?<symbol>[=~<>]=|\.\.|[^\s\w])|(?<space>\s+)/g;
const KEYWORDS = new Set(
  "and break do else elseif end false for function if in local nil not or repeat return then true until while"
    .split(" "),
);
const BUILT_IN = new Set(
  "redis string math table unpack tonumber type ipairs KEYS ARGV".split(" "),
);
const COMPARISON = ["==", "~=", "<=", ">=", "<", ">"];

/** Finds what breaks the rules in a file, one text per problem. */
export function luaProblems(source: string, rules: LuaRules): string[] {
  const tokens = tokensOf(source);
  const lines = source.split("\n");
  return [
    ...inputProblems(tokens, lines, rules),
    ...numberProblems(tokens, lines),
    ...nameProblems(tokens, rules),
    ...logicProblems(lines),
  ];
}

/** Finds inputs that a script's header does not name, or names in vain, and a missing "Returns". */
export function headerProblems(source: string): string[] {
  const header = headerOf(source);
  const code = source.slice(header.length).replace(/--.*$/gm, "");
  const problems: string[] = [];
  for (const kind of ["KEYS", "ARGV"]) {
    const [named, used] = [header, code].map((text) => inputsIn(text, kind).join(" "));
    if (named !== used) problems.push(`the header names ${named}, the code uses ${used}`);
  }
  if (!/^-- Returns/m.test(header)) problems.push("the header does not say what it returns");
  return problems;
}

/** The names that a part defines for files that include it. */
export function definedIn(source: string): Set<string> {
  const names = new Set<string>();
  for (const [, name] of source.matchAll(/^local (?:function )?(\w+)/gm)) names.add(name!);
  return names;
}

function headerOf(source: string): string {
  return /^(?:--(?!#).*\n)*/.exec(source)![0];
}

function inputsIn(text: string, kind: string): string[] {
  return [...new Set(text.match(new RegExp(`${kind}\\[\\d+\\]`, "g")))].sort();
}

function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  const lines = source.split("\n");
  let line = 1;
  for (const { 0: text, groups } of source.matchAll(TOKEN)) {
    const kind = (["string", "number", "name", "symbol"] as const).find((name) => groups![name]);
    if (kind !== undefined) tokens.push({ kind, text, line, scope: scopeOf(lines, line) });
    line += text.split("\n").length - 1;
  }
  return tokens;
}

/** The function that a line is in. Functions begin and end at the left margin. */
function scopeOf(lines: readonly string[], line: number): number {
  for (let i = line; i > 0; i--) {
    if (i < line && lines[i - 1] === "end") return FILE_SCOPE;
    if (lines[i - 1]!.startsWith("local function ")) return i;
  }
  return FILE_SCOPE;
}

/** A script reads each input once, into a local. Parts read none. */
function inputProblems(tokens: Token[], lines: string[], { isPart }: LuaRules): string[] {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const [i, { text, line }] of tokens.entries()) {
    if (text !== "KEYS" && text !== "ARGV") continue;
    const input = tokens[i + 1]?.text === "[" ? `${text}[${tokens[i + 2]!.text}]` : text;
    if (isPart || !lines[line - 1]!.startsWith("local ")) problems.push(`${line}: free ${input}`);
    if (seen.has(input)) problems.push(`${line}: ${input} is read twice`);
    seen.add(input);
  }
  return problems;
}

/** Numbers belong into constants, except the 0 and 1 of plain arithmetic, comparisons and indexes. */
function numberProblems(tokens: Token[], lines: string[]): string[] {
  const problems: string[] = [];
  for (const [i, { kind, text, line }] of tokens.entries()) {
    const code = lines[line - 1]!;
    if (/^local [A-Z][A-Z0-9_]* = (?:-?\d+|'[^']*')$/.test(code)) continue;
    if (kind === "string" && /^'-?\d+'$/.test(text)) problems.push(`${line}: naked ${text}`);
    if (kind === "number" && !isPlain(tokens, i, code)) problems.push(`${line}: naked ${text}`);
  }
  return problems;
}

function isPlain(tokens: Token[], i: number, code: string): boolean {
  const { text } = tokens[i]!;
  const at = (offset: number) => tokens[i + offset]?.text ?? "";
  if (["KEYS", "ARGV"].includes(at(-2)) && at(-1) === "[") return true;
  if (text !== "0" && text !== "1") return false;
  if ([...COMPARISON, "+", "-"].includes(at(-1)) && !["(", ",", "{", "="].includes(at(-2))) {
    return true;
  }
  if (at(-1) === "[" && at(1) === "]") return true;
  if (at(-1) === "=" && (at(-3) === "for" || (text === "0" && at(-2).endsWith("_count")))) {
    return true;
  }
  return at(-1) === "," && at(1) === "," && code.includes("string.sub(");
}

/** Each name has more than one letter, and is declared in its scope, in an included part or by Lua. */
function nameProblems(tokens: Token[], { includedNames }: LuaRules): string[] {
  const problems: string[] = [];
  const functions = tokens.filter((_, i) => tokens[i - 1]?.text === "function");
  const locals = namesOf(tokens.filter(({ scope }) => scope === FILE_SCOPE));
  const ownNames = [...functions.map(({ text }) => text), ...locals];
  const scopes = Map.groupBy(tokens, ({ scope }) => scope);
  for (const scoped of scopes.values()) {
    const known = new Set([...includedNames, ...BUILT_IN, ...ownNames, ...namesOf(scoped)]);
    for (const [i, { kind, text, line }] of scoped.entries()) {
      if (kind !== "name" || KEYWORDS.has(text)) continue;
      if (text.length === 1 && text !== "_") problems.push(`${line}: one letter: ${text}`);
      const isField = scoped[i - 1]?.text === "." ||
        (["{", ","].includes(scoped[i - 1]?.text ?? "") && scoped[i + 1]?.text === "=");
      if (!isField && !known.has(text)) problems.push(`${line}: free name ${text}`);
    }
  }
  return problems;
}

/** The names that `local`, `for` and `function` declare, with parameters. */
function namesOf(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token, start) => {
    if (!["local", "for", "function"].includes(token.text)) return [];
    const isFunction = token.text === "function" || tokens[start + 1]?.text === "function";
    const last = tokens.findIndex(({ text, line }, i) =>
      i > start && (line > token.line || (isFunction ? text === ")" : ["=", "in"].includes(text)))
    );
    return tokens.slice(start + 1, last === -1 ? undefined : last)
      .filter(({ kind, text }) => kind === "name" && !KEYWORDS.has(text)).map(({ text }) => text);
  });
}

/** `and` and `or` belong into conditions. A value is chosen by an `if`. */
function logicProblems(lines: string[]): string[] {
  return lines.flatMap((line, index) => {
    const code = line.replace(/--.*$/, "").trim();
    if (!/\b(?:and|or)\b/.test(code)) return [];
    const isCondition = /^(?:if|elseif|while|return|local (?:is|has)_\w+ =) ?/.test(code);
    const isTernary = /\band\b.*\bor\b/.test(code) && !/^(?:if|elseif|while)\b/.test(code);
    return isCondition && !isTernary ? [] : [`${index + 1}: and/or outside a condition`];
  });
}
