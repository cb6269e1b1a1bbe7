/**
 * Reads one file with Deno's own parser: its functions, what it exports, and each place that uses a
 * timer or a function. Runs only under `deno test`, where Deno offers the parser.
 *
 * @module
 */
import { type Loop, loopAround } from "./loops.ts";
import { isFunction, type Node, parse, type Tree } from "../syntax/tree.ts";

/** A function that has a name by which it is called. */
export interface NamedFunction {
  readonly name: string;
  readonly isWorkload: boolean;
}

/** A timer, a function of the same file, or an import. */
export type Target =
  | { readonly kind: "timer" }
  | { readonly kind: "function"; readonly index: number }
  | { readonly kind: "import"; readonly from: string; readonly name: string };

/** A place that uses a timer or a function. */
export interface Use {
  readonly line: number;
  readonly text: string;
  readonly target: Target;
  /** Whether the function around it leaves the time to its caller. */
  readonly passesTime: boolean;
  /** The named function around it, an index in {@linkcode Source.functions}. */
  readonly within: number | undefined;
  readonly loop: Loop;
  readonly isWorkload: boolean;
  readonly hasReason: boolean;
}

/** A file, as far as the search needs it. */
export interface Source {
  readonly path: string;
  readonly functions: readonly NamedFunction[];
  readonly uses: readonly Use[];
  readonly exports: ReadonlyMap<string, Target>;
  /** The modules of which it exports everything. */
  readonly allOf: readonly string[];
}

/** The meaning of a name in its scope. */
type Meaning =
  | Target
  | { readonly kind: "resolve"; readonly promise: Node | undefined }
  | { readonly kind: "parameter"; readonly of: Node }
  | { readonly kind: "other" };

const REASON = /^\s*\/\/ No condition: \S/;
const WORKLOAD = /^\s*(?:\/\/|\*) Paces a workload: \S/;
const COMMENT = /^\s*(?:\/\/|\/\*\*|\*)/;
const SCOPES = new Set([
  "Program",
  "BlockStatement",
  "ForStatement",
  "ForOfStatement",
  "ForInStatement",
  "CatchClause",
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);
const WRAPPERS = new Set([
  "TSNonNullExpression",
  "TSAsExpression",
  "TSSatisfiesExpression",
  "ChainExpression",
]);
/** Callbacks of these belong to the function that calls them: it waits for their results. */
const RUNS_INLINE = new Set(["map", "then", "catch", "finally", "from"]);
const OTHER: Meaning = { kind: "other" };

/**
 * Reads a file.
 *
 * @param path Its path below the root, which starts with `testing/` if the whole file may be a workload.
 * @throws {Error} If Deno cannot parse it.
 */
export function readSource(path: string, text: string): Source {
  return parse(path, text, ({ tree }) => new Reader(path, text, tree).read());
}

class Reader {
  readonly #path: string;
  readonly #lines: readonly string[];
  readonly #lineStarts: number[] = [0];
  readonly #tree: Tree;
  readonly #names = new Map<unknown, Map<string, Meaning>>();
  readonly #functions: NamedFunction[] = [];
  readonly #indices = new Map<unknown, number>();

  constructor(path: string, text: string, tree: Tree) {
    this.#path = path;
    this.#lines = text.split("\n");
    for (const line of this.#lines) {
      this.#lineStarts.push(this.#lineStarts.at(-1)! + line.length + 1);
    }
    this.#tree = tree;
  }

  read(): Source {
    for (const node of this.#tree.nodes) this.#declare(node);
    const identifiers = this.#tree.nodes.filter(({ type }) => type === "Identifier");
    const meanings = identifiers.filter(isReference)
      .map((node) => ({ node, meaning: this.#meaning(node) }));
    const resolvers = meanings.flatMap(({ node, meaning }) =>
      meaning?.kind === "resolve" ? [{ node, promise: meaning.promise }] : []
    );
    const timers = this.#tree.nodes.flatMap((node) => this.#resolvedByTimer(node, resolvers));
    const calls = meanings.map(({ node, meaning }) =>
      isTarget(meaning) ? this.#use(node, meaning) : undefined
    );
    const promises = timers.map(({ node, promise }) => this.#use(promise, { kind: "timer" }, node));
    const { exports, allOf } = this.#exports();
    const uses = [...calls, ...promises].flatMap((use) => use ?? []).sort((a, b) =>
      a.line - b.line
    );
    return { path: this.#path, functions: this.#functions, uses, exports, allOf };
  }

  #declare(node: Node): void {
    const { type } = node;
    if (type === "ImportDeclaration") this.#declareImports(node);
    else if (type === "VariableDeclarator") this.#declareVariable(node);
    else if (type === "FunctionDeclaration" && node.id) {
      this.#setFunction(node.id, node, node.parent);
    } else if (type === "ClassDeclaration" && node.id) {
      this.#set(scopeOf(node.parent), nameOf(node.id), OTHER);
    } else if (type === "CatchClause" && node.param) {
      for (const id of idsIn(node.param)) this.#set(node, nameOf(id), OTHER);
    }
    if (isFunction(node)) this.#declareParameters(node);
  }

  #declareImports(node: Node): void {
    const from = String(node.source.value);
    if (from === "node:timers") return; // the same as the global ones
    for (const specifier of list(node.specifiers)) {
      const name = specifier.type === "ImportSpecifier"
        ? nameOf(specifier.imported)
        : specifier.type === "ImportDefaultSpecifier"
        ? "default"
        : "*";
      this.#set(scopeOf(node), nameOf(specifier.local), importOf(from, name));
    }
  }

  #declareVariable(node: Node): void {
    const id = node.id;
    const init = node.init ? unwrapped(node.init) : undefined;
    if (id.type === "Identifier" && init !== undefined && isFunction(init)) {
      this.#setFunction(id, init, node.parent);
      return;
    }
    const isResolvers = init?.type === "CallExpression" &&
      nameOf(init.callee.property) === "withResolvers";
    for (const name of idsIn(id)) {
      const isResolve = isResolvers && nameOf(name.parent.key) === "resolve";
      this.#set(
        scopeOf(node),
        nameOf(name),
        isResolve ? { kind: "resolve", promise: undefined } : OTHER,
      );
    }
  }

  #declareParameters(node: Node): void {
    for (const [index, parameter] of list(node.params).entries()) {
      const isResolve = index === 0 && isExecutor(node);
      for (const id of idsIn(parameter)) {
        const promise = node.parent;
        this.#set(
          node,
          nameOf(id),
          isResolve ? { kind: "resolve", promise } : { kind: "parameter", of: node },
        );
      }
    }
  }

  #setFunction(id: Node, node: Node, at: Node): void {
    const name = nameOf(id);
    const index = this.#functions.push({ name, isWorkload: this.#isWorkload(node) }) - 1;
    this.#indices.set(node, index);
    this.#set(scopeOf(at), name, { kind: "function", index });
  }

  #set(scope: Node, name: string, meaning: Meaning): void {
    const names = this.#names.get(scope) ?? new Map<string, Meaning>();
    this.#names.set(scope, names.set(name, meaning));
  }

  /** The meaning of an identifier, `undefined` if the file does not declare it. */
  #meaning(node: Node): Meaning | undefined {
    const name = nameOf(node);
    for (let at: Node | undefined = node.parent; at; at = at.parent) {
      const meaning = this.#names.get(at)?.get(name);
      if (meaning !== undefined) return meaning;
    }
    return undefined;
  }

  /** The promise that a call of the global `setTimeout()` or `setInterval()` resolves, if it does. */
  #resolvedByTimer(
    node: Node,
    resolvers: readonly { readonly node: Node; readonly promise: Node | undefined }[],
  ): { readonly node: Node; readonly promise: Node }[] {
    if (node.type !== "CallExpression") return [];
    const callee = node.callee;
    const isMember = callee.type === "MemberExpression" &&
      nameOf(callee.object) === "globalThis";
    const name = nameOf(isMember ? callee.property : callee);
    if (name !== "setTimeout" && name !== "setInterval") return [];
    if (!isMember && this.#meaning(callee) !== undefined) return [];
    const callback = list(node.arguments)[0];
    if (callback === undefined) return [];
    // `setTimeout(end.resolve)`
    if (callback.type === "MemberExpression" && nameOf(callback.property) === "resolve") {
      return [{ node, promise: node }];
    }
    const named = callback.type === "Identifier" ? this.#meaning(callback) : undefined;
    const places: unknown[] = [callback];
    for (const [place, index] of this.#indices) {
      if (named?.kind === "function" && named.index === index) places.push(place);
    }
    const found = resolvers.find((resolver) => isInside(resolver.node, places));
    return found === undefined ? [] : [{ node, promise: found.promise ?? node }];
  }

  #use(node: Node, target: Target, timer = callOf(node)): Use | undefined {
    const place = timer === callOf(node) ? timer : node;
    if (isIgnored(place)) return undefined;
    const line = this.#lineOf(node);
    return {
      line,
      text: this.#lines[line - 1]!.trim(),
      target,
      passesTime: this.#passesTime(timer),
      within: this.#functionAround(place),
      loop: loopAround(place, this.#tree),
      isWorkload: this.#isWorkload(place),
      hasReason: this.#hasComment(line, REASON) ||
        this.#hasComment(this.#lineOf(statementOf(place)), REASON),
    };
  }

  /** The named function that waits for what happens at this node. */
  #functionAround(node: Node): number | undefined {
    for (let at: Node | undefined = node; at; at = at.parent) {
      if (!isFunction(at)) continue;
      const index = this.#indices.get(at);
      if (index !== undefined || !runsInline(at)) return index;
    }
    return undefined;
  }

  /** Whether the arguments of a call depend on a parameter of the named function around it. */
  #passesTime(call: Node): boolean {
    const index = this.#functionAround(call);
    return index !== undefined &&
      list(call.arguments).some((argument) =>
        [argument, ...this.#tree.inside(argument)].some((node) => {
          if (node.type !== "Identifier" || !isReference(node)) return false;
          const meaning = this.#meaning(node);
          return meaning?.kind === "parameter" && this.#indices.get(meaning.of) === index;
        })
      );
  }

  /** Whether the node, or what contains it, is declared to be a workload. */
  #isWorkload(node: Node): boolean {
    if (this.#path.startsWith("testing/") && this.#isWorkloadFile()) return true;
    for (let at: Node | undefined = node; at; at = at.parent) {
      const isNamed = isFunction(at) && (this.#indices.has(at) || isNamedByParent(at));
      if (isNamed && this.#hasComment(this.#lineOf(memberOf(at)), WORKLOAD)) return true;
    }
    return false;
  }

  #isWorkloadFile(): boolean {
    const first = this.#tree.nodes[0] && list(this.#tree.nodes[0].body)[0];
    const end = first === undefined ? 0 : this.#lineOf(first) - 1;
    return this.#lines.slice(0, end).some((line) => WORKLOAD.test(line));
  }

  /** Whether the comment that ends on the line above says so. */
  #hasComment(line: number, pattern: RegExp): boolean {
    for (let at = line - 2; at >= 0 && COMMENT.test(this.#lines[at]!); at--) {
      if (pattern.test(this.#lines[at]!)) return true;
    }
    return false;
  }

  #exports(): Pick<Source, "exports" | "allOf"> {
    const exports = new Map<string, Target>();
    const allOf: string[] = [];
    const program = this.#tree.nodes[0]!;
    const add = (name: string, local: string) => {
      const meaning = this.#names.get(program)?.get(local);
      if (isTarget(meaning)) exports.set(name, meaning);
    };
    for (const node of list(program.body)) {
      const from = node.source ? String(node.source.value) : undefined;
      if (node.type === "ExportAllDeclaration") allOf.push(from!);
      if (node.type !== "ExportNamedDeclaration") continue;
      for (const specifier of list(node.specifiers)) {
        const [local, name] = [nameOf(specifier.local), nameOf(specifier.exported)];
        if (from === undefined) add(name, local);
        else exports.set(name, importOf(from, local));
      }
      for (const name of namesDeclaredBy(node.declaration)) add(name, name);
    }
    return { exports, allOf };
  }

  #lineOf(node: Node): number {
    const [start] = node.range as [number, number];
    let [low, high] = [0, this.#lineStarts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#lineStarts[middle]! <= start) low = middle;
      else high = middle;
    }
    return low + 1;
  }
}

function isTarget(meaning: Meaning | undefined): meaning is Target {
  const kind = meaning?.kind;
  return kind === "timer" || kind === "function" || kind === "import";
}

function importOf(from: string, name: string): Target {
  const isTimer = (from === "node:timers/promises" && name !== "setImmediate") ||
    (from === "@std/async" && name === "delay");
  return isTimer ? { kind: "timer" } : { kind: "import", from, name };
}

function list(nodes: unknown): Node[] {
  return ((nodes ?? []) as Node[]).flatMap((node) => node ?? []);
}

function nameOf(node: unknown): string {
  return String((node as Node)?.name ?? "");
}

function unwrapped(node: Node): Node {
  return WRAPPERS.has(node.type) ? unwrapped(node.expression) : node;
}

/** Whether a function is the one that `new Promise()` calls. */
function isExecutor({ parent }: Node): boolean {
  return parent.type === "NewExpression" && nameOf(parent.callee) === "Promise";
}

function isNamedByParent({ parent }: Node): boolean {
  return parent.type === "MethodDefinition" || parent.type === "Property" ||
    parent.type === "PropertyDefinition";
}

/** Whether the function that contains this one waits for its result. */
function runsInline(node: Node): boolean {
  const { parent } = node;
  if (isExecutor(node)) return true;
  if (parent.type !== "CallExpression") return false;
  if (parent.callee === node) return true;
  return RUNS_INLINE.has(nameOf(parent.callee.property));
}

function scopeOf(node: Node): Node {
  return SCOPES.has(node.type) ? node : scopeOf(node.parent);
}

/** The declaration or the member that a function is the value of. */
function memberOf(node: Node): Node {
  const { parent } = node;
  if (isNamedByParent(node)) return parent;
  if (parent.type === "VariableDeclarator") return memberOf(parent.parent);
  return parent.type === "ExportNamedDeclaration" ? parent : node;
}

function statementOf(node: Node): Node {
  const { parent } = node;
  return parent.type === "BlockStatement" || parent.type === "Program" ? node : statementOf(parent);
}

function idsIn(pattern: Node): Node[] {
  switch (pattern.type) {
    case "Identifier":
      return [pattern];
    case "ObjectPattern":
      return list(pattern.properties).flatMap((property) =>
        idsIn(property.type === "Property" ? property.value : property)
      );
    case "ArrayPattern":
      return list(pattern.elements).flatMap(idsIn);
    case "AssignmentPattern":
      return idsIn(pattern.left);
    case "RestElement":
      return idsIn(pattern.argument);
    case "TSParameterProperty":
      return idsIn(pattern.parameter);
    default:
      return [];
  }
}

function namesDeclaredBy(node: Node): string[] {
  if (!node) return [];
  if (node.type === "FunctionDeclaration") return [nameOf(node.id)];
  return list(node.declarations).flatMap((each) => idsIn(each.id).map(nameOf));
}

/** Whether an identifier is a value that is used here, and not a declaration, a key or a type. */
function isReference(node: Node): boolean {
  const { parent } = node;
  if (isFunction(parent)) return parent.body === node;
  switch (parent.type) {
    case "MemberExpression":
      return parent.object === node || Boolean(parent.computed);
    case "Property":
    case "PropertyDefinition":
    case "MethodDefinition":
      return parent.value === node && parent.parent.type !== "ObjectPattern";
    case "VariableDeclarator":
      return parent.init === node;
    case "AssignmentPattern":
      return parent.right === node;
    case "ClassDeclaration":
    case "CatchClause":
    case "LabeledStatement":
    case "BreakStatement":
    case "ContinueStatement":
    case "ArrayPattern":
    case "RestElement":
    case "ExportSpecifier":
      return false;
    default:
      return WRAPPERS.has(parent.type) || !/^(?:TS|Import)/.test(parent.type);
  }
}

/** The call that an identifier is the callee of (also as `timers.setTimeout()`), or itself. */
function callOf(node: Node): Node {
  const { parent } = node;
  if (parent.type === "CallExpression" && parent.callee === node) return parent;
  const isCallee = WRAPPERS.has(parent.type) ||
    (parent.type === "MemberExpression" && parent.object === node);
  return isCallee ? callOf(parent) : node;
}

/** Whether nothing waits for a call, or what follows it throws: then it is the bound of a race. */
function isIgnored(place: Node): boolean {
  const { parent } = place;
  if (parent.type === "UnaryExpression") return true; // void, typeof
  if (parent.type !== "MemberExpression" || nameOf(parent.property) !== "then") return false;
  const next = list(parent.parent.arguments)[0];
  const body = next && isFunction(next) ? next.body : undefined;
  return body?.type === "BlockStatement" && list(body.body).at(-1)?.type === "ThrowStatement";
}

function isInside(node: Node, places: readonly unknown[]): boolean {
  for (let at: Node | undefined = node; at; at = at.parent) if (places.includes(at)) return true;
  return false;
}
