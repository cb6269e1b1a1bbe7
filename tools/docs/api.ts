/**
 * Reads what the entries of `deno.json` export, with its comments, from `deno doc --json`.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url);
const MAX_OUTPUT_BYTES = 2 ** 26;

/** A comment, in parts. */
export interface Comment {
  readonly doc?: string;
  readonly tags?: readonly Tag[];
}

/** A tag of a comment, as `@throws {TypeError} …`. */
export interface Tag {
  readonly kind: string;
  /** The parameter that a `@param` is about. */
  readonly name?: string;
  readonly doc?: string;
  /** The type in braces. */
  readonly tsType?: unknown;
  /** The value of a `@default {…}`, and the whole tag if its kind is `unsupported`. */
  readonly value?: string;
}

/** Something with a name and a comment: a function, a method, a property, a parameter. */
export interface Node {
  readonly name?: string;
  readonly jsDoc?: Comment;
  /** Its lines count from 0. */
  readonly location?: { readonly filename: string; readonly line: number };
  readonly accessibility?: string;
  /** The parameters of a constructor, and of an interface's method. */
  readonly params?: readonly Node[];
  /** The parameters of a class's method. */
  readonly functionDef?: { readonly params?: readonly Node[] };
}

/** One declaration of a symbol: a function has one for each overload. */
export interface Declaration extends Node {
  readonly kind: string;
  readonly def?: {
    readonly params?: readonly Node[];
    readonly constructors?: readonly Node[];
    readonly methods?: readonly Node[];
    readonly properties?: readonly Node[];
    /** A class has the name of one, an interface the types of all. */
    readonly extends?: string | readonly { readonly repr: string }[];
  };
}

/** A symbol of an entry. */
export interface ApiSymbol {
  readonly name: string;
  readonly declarations: readonly Declaration[];
}

/** A part of the API with all its declarations. */
export interface Documented {
  /** As a reader would write it: `RedisLock.attach()`. */
  readonly title: string;
  readonly nodes: readonly Node[];
}

/** The part of the output of `deno doc --json` that is used: the symbols of each module, by its URL. */
export type Documentation<S> = Readonly<
  Record<string, { readonly module_doc?: Comment; readonly symbols: readonly S[] }>
>;

/** The modules of the entries of `deno.json`. */
export function entries(): string[] {
  const { exports } = JSON.parse(readFileSync(new URL("deno.json", ROOT), "utf8")) as {
    exports: Record<string, string>;
  };
  return Object.values(exports);
}

/** All that modules export, each symbol once: those of the entries unless others are given. */
export function readApi(modules: readonly string[] = entries()): ApiSymbol[] {
  return symbolsOf(readDocumentation<ApiSymbol>(modules));
}

/** The output of `deno doc --json` for modules, whose paths are relative to the root. */
export function readDocumentation<S>(modules: readonly string[]): Documentation<S> {
  const output = execFileSync(process.execPath, ["doc", "--json", ...modules], {
    cwd: fileURLToPath(ROOT),
    encoding: "utf8",
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  return (JSON.parse(output) as { readonly nodes: Documentation<S> }).nodes;
}

/** The symbols of all modules; those that a module only passes on are left out. */
function symbolsOf(nodes: Documentation<ApiSymbol>): ApiSymbol[] {
  return Object.values(nodes).flatMap(({ symbols }) => symbols)
    .map(({ name, declarations }) => ({
      name,
      declarations: declarations.filter(({ kind }) => kind !== "reference"),
    }))
    .filter(({ declarations }) => declarations.length > 0);
}

/** Whether a symbol is a function or a class. */
export function isCode({ declarations }: ApiSymbol): boolean {
  return declarations.some(({ kind }) => kind === "function" || kind === "class");
}

/** The function itself, or the constructors and methods of a class or an interface. */
export function callablesOf({ name, declarations }: ApiSymbol): Documented[] {
  if (declarations.some(({ kind }) => kind === "function")) {
    return [{ title: `${name}()`, nodes: declarations }];
  }
  const members = new Map<string, Node[]>();
  for (const { def = {} } of declarations) {
    for (const node of [...def.constructors ?? [], ...def.methods ?? []]) {
      if (node.accessibility === "private") continue;
      const title = node.name === "constructor" ? `new ${name}()` : `${name}.${node.name}()`;
      members.set(title, [...members.get(title) ?? [], node]);
    }
  }
  return [...members].map(([title, nodes]) => ({ title, nodes }));
}

/** The interfaces that an interface extends. */
export function parentsOf({ declarations }: ApiSymbol): string[] {
  return declarations.flatMap(({ def: { extends: parents = [] } = {} }) =>
    typeof parents === "string" ? [] : parents.map(({ repr }) => repr)
  );
}

/** The variables, properties and parameters of a symbol. */
export function valuesOf({ name, declarations }: ApiSymbol): Documented[] {
  const one = (title: string) => (node: Node): Documented => ({ title, nodes: [node] });
  return declarations.flatMap((declaration) => {
    const { kind, def = {} } = declaration;
    const functions = [
      ...kind === "function" ? [{ ...declaration, params: def.params ?? [] }] : [],
      ...def.constructors ?? [],
      ...def.methods ?? [],
    ];
    return [
      ...kind === "variable" ? [one(name)(declaration)] : [],
      ...(def.properties ?? []).map((node) => one(`${name}.${node.name}`)(node)),
      ...functions.flatMap(parametersOf).map((node) => one(`${name}: ${node.name}`)(node)),
    ];
  });
}

/** The parameters of a function, each with the text of its `@param` as its comment. */
function parametersOf({ params, functionDef, jsDoc, location }: Node): Node[] {
  return (params ?? functionDef?.params ?? []).map((param) => {
    const tag = tagsOf(jsDoc, "param").find(({ name }) => name === param.name);
    return { ...param, ...location && { location }, jsDoc: { doc: tag?.doc ?? "" } };
  });
}

/** The tags of one kind. */
export function tagsOf(comment: Comment | undefined, kind: string): Tag[] {
  return (comment?.tags ?? []).filter((tag) => tag.kind === kind);
}

/** The place of a declaration, as `redis/redis_lock.ts:12`. */
export function placeOf({ nodes }: Documented): string {
  const { filename = "", line = 0 } = nodes.find(({ location }) => location)?.location ?? {};
  return `${filename.replace(ROOT.href, "")}:${line + 1}`;
}
