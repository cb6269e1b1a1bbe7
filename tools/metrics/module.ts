/**
 * Reads what the metrics need of a module: its lines, its types, and its functions that may be forwarders.
 * Whether they are is decided in `forwarders.ts`, with all modules. Runs only under `deno test`.
 *
 * @module
 */
import { isFunction, type Node, parse, type Tree } from "../syntax/tree.ts";
import { countLines } from "./lines.ts";

/** A named type: the types of its members by their names, and whose members it has too. */
export interface NamedType {
  readonly name: string;
  /** A class, an interface, an alias, or an enum. */
  readonly kind: string;
  /** The name of the type of each member; `null` if it has no name. */
  readonly members: Readonly<Record<string, string | null>>;
  readonly bases: readonly string[];
}

/** A function. */
export interface FunctionSize {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
}

/** A function whose body only calls or reads something, with what its caller has passed. */
export interface Candidate {
  readonly name: string;
  readonly line: number;
  /** The name of the function or variable; for a member, of the type that the path starts at. */
  readonly from: string | null;
  /** The names of the members that lead to it; none for a function. */
  readonly path: readonly string[];
}

/** A module. */
export interface Module {
  readonly path: string;
  readonly lines: number;
  /** Of the file, with blanks and comments. */
  readonly length: number;
  readonly types: readonly NamedType[];
  readonly functions: readonly FunctionSize[];
  readonly candidates: readonly Candidate[];
  /** The functions that the module declares, or imports by a relative path. */
  readonly ownNames: readonly string[];
}

const KINDS: Readonly<Record<string, string>> = {
  ClassDeclaration: "class",
  ClassExpression: "class",
  TSInterfaceDeclaration: "interface",
  TSTypeAliasDeclaration: "alias",
  TSEnumDeclaration: "enum",
};
const WRAPPERS = new Set([
  "AwaitExpression",
  "ChainExpression",
  "TSAsExpression",
  "TSNonNullExpression",
  "TSSatisfiesExpression",
]);
/** Types with the members of their first argument. */
const SAME_MEMBERS = new Set([
  ...["NonNullable", "Omit", "Partial", "Pick", "Readonly", "Required", "WeakRef"],
]);

/** Reads a module. */
export function readModule(path: string, text: string): Module {
  return parse(path, text, ({ tree, comments }) => {
    const lineOf = (at: number) => text.slice(0, at).split("\n").length;
    const functions = tree.nodes.filter((node) => isFunction(node) && node.body);
    return {
      path,
      lines: countLines(text, comments),
      length: text.trimEnd().split("\n").length,
      types: tree.nodes.filter(({ type, id }) => type in KINDS && id).map(typeOf),
      functions: functions.map((node) => {
        const [start, end] = ownerOf(node).range;
        const line = lineOf(start);
        return { name: nameOf(node), line, lines: lineOf(end) - line + 1 };
      }),
      candidates: functions.flatMap((node) => {
        const target = targetOf(node, tree);
        const line = lineOf(ownerOf(node).range[0]);
        return target ? [{ name: nameOf(node), line, ...target }] : [];
      }),
      ownNames: ownNames(tree),
    };
  });
}

function typeOf(node: Node): NamedType {
  const kind = KINDS[node.type]!;
  const body: Node[] = node.body?.body ?? node.typeAnnotation?.members ?? [];
  const members: Record<string, string | null> = {};
  if (kind !== "enum") {
    for (const member of body) {
      members[keyOf(member)] = annotated(member);
      if (member.kind !== "constructor") continue;
      for (const { type, parameter } of member.value.params) {
        if (type === "TSParameterProperty") members[leftOf(parameter).name] = annotated(parameter);
      }
    }
  }
  const heritage: Node[] = [...node.extends ?? [], ...node.implements ?? []];
  const bases = [node.superClass?.name, ...heritage.map(baseName)];
  if (kind === "alias") bases.push(...allTypesOf(node.typeAnnotation));
  return { name: node.id.name, kind, members, bases: bases.filter(Boolean) };
}

/** The names in an alias, which may be of several types. */
function allTypesOf(type: Node): (string | null)[] {
  return (type?.types ?? [type]).map(typeName);
}

/** The name of the type of a member or a parameter: as written, or of the class that it is made of. */
function annotated(node: Node): string | null {
  const left = leftOf(node);
  const annotation = left.typeAnnotation ?? left.id?.typeAnnotation ?? node.value?.returnType ??
    node.returnType;
  if (annotation) return typeName(annotation.typeAnnotation);
  const value = node.value ?? node.init;
  return value?.type === "NewExpression" ? value.callee.name : null;
}

function baseName({ expression: { name }, typeArguments }: Node): string | null {
  return SAME_MEMBERS.has(name) ? typeName(typeArguments?.params[0]) : name;
}

function typeName(type: Node): string | null {
  if (type?.type === "TSUnionType") {
    return type.types.map(typeName).find((name: string | null) => name !== null) ?? null;
  }
  if (type?.type !== "TSTypeReference") return null;
  const { name } = type.typeName;
  return SAME_MEMBERS.has(name) ? typeName(type.typeArguments?.params[0]) : name ?? null;
}

/** The function's definition: the method or the variable that it is the value of, or itself. */
function ownerOf(node: Node): Node {
  const { parent } = node;
  if (isMember(parent) && parent.value === node) return parent;
  return parent.type === "VariableDeclarator" ? parent : node;
}

function isMember({ type }: Node): boolean {
  return type === "MethodDefinition" || type === "PropertyDefinition" || type === "Property";
}

function nameOf(node: Node): string {
  const owner = ownerOf(node);
  if (!isMember(owner)) return owner.id?.name ?? "";
  const className = classOf(owner)?.id?.name;
  return className ? `${className}.${keyOf(owner)}` : keyOf(owner);
}

function keyOf({ key }: Node): string {
  if (key?.type === "PrivateIdentifier") return `#${key.name}`;
  // `[Symbol.asyncDispose]`
  return key?.property ? `[${key.property.name}]` : String(key?.name ?? key?.value ?? "");
}

function classOf(node: Node): Node {
  for (let at = node.parent; at; at = at.parent) if (KINDS[at.type] === "class") return at;
}

/** The function that a named function passes its arguments on to, if it does nothing else. */
function targetOf(node: Node, tree: Tree): Pick<Candidate, "from" | "path"> | undefined {
  const owner = ownerOf(node);
  if (nameOf(node) === "" || owner.kind === "constructor" || owner.kind === "set") return;
  const expression = onlyExpression(node.body);
  if (expression === undefined) return;
  if (expression.type === "CallExpression") {
    const names = new Set<string>(node.params.flatMap(namesIn));
    if (!expression.arguments.every((each: Node) => isPassedOn(each, names))) return;
    return pathTo(expression.callee, { node, tree, least: 1 });
  }
  return expression.type === "MemberExpression"
    ? pathTo(expression, { node, tree, least: 2 })
    : undefined;
}

function onlyExpression(body: Node): Node | undefined {
  if (body.type !== "BlockStatement") return unwrapped(body);
  const [statement, ...others] = body.body;
  if (others.length > 0) return;
  if (statement?.type === "ReturnStatement") {
    return statement.argument ? unwrapped(statement.argument) : undefined;
  }
  return statement?.type === "ExpressionStatement" ? unwrapped(statement.expression) : undefined;
}

function unwrapped(node: Node): Node {
  if (node.type === "UnaryExpression" && node.operator === "void") return unwrapped(node.argument);
  return WRAPPERS.has(node.type) ? unwrapped(node.expression ?? node.argument) : node;
}

/** Whether an argument is a parameter of the function, or a default. */
function isPassedOn(node: Node, names: ReadonlySet<string>): boolean {
  switch (node.type) {
    case "Identifier":
      return names.has(node.name) || node.name === "undefined";
    case "Literal":
      return true;
    case "SpreadElement":
      return isPassedOn(node.argument, names);
    case "LogicalExpression":
      return isPassedOn(node.left, names) && isPassedOn(node.right, names);
    default:
      return WRAPPERS.has(node.type) && node.type !== "AwaitExpression" &&
        isPassedOn(unwrapped(node), names);
  }
}

function namesIn(pattern: Node): string[] {
  switch (pattern?.type) {
    case "Identifier":
      return [pattern.name];
    case "ObjectPattern":
      return pattern.properties.flatMap((each: Node) => namesIn(each.value ?? each.argument));
    case "ArrayPattern":
      return pattern.elements.flatMap(namesIn);
    case "AssignmentPattern":
      return namesIn(pattern.left);
    case "RestElement":
      return namesIn(pattern.argument);
    default:
      return [];
  }
}

function leftOf(pattern: Node): Node {
  return pattern.type === "AssignmentPattern" ? pattern.left : pattern;
}

/**
 * The path from a type or a function to what is called or read.
 *
 * @param target What is called or read.
 * @param place The function around it, and how many members a path from `this` has at least.
 */
function pathTo(
  target: Node,
  { node, tree, least }: { readonly node: Node; readonly tree: Tree; readonly least: number },
): Pick<Candidate, "from" | "path"> | undefined {
  const path: string[] = [];
  let at = unwrapped(target);
  for (; at.type === "MemberExpression"; at = unwrapped(at.object)) {
    if (at.computed) return;
    path.unshift(keyOf({ key: at.property }));
  }
  if (at.type === "ThisExpression" || at.type === "Super") {
    return path.length < least ? undefined : { from: classOf(node)?.id?.name ?? null, path };
  }
  if (at.type !== "Identifier" || path.length < least - 1) return;
  const variable = variableOf(at.name, node, tree);
  if (variable === undefined) return { from: at.name, path };
  return path.length === 0 ? undefined : { from: annotated(variable), path };
}

/** The parameter or the object that a name stands for; `undefined` for a function or a class. */
function variableOf(name: string, node: Node, { nodes }: Tree): Node | undefined {
  for (let at = node; at; at = at.parent) {
    if (!isFunction(at)) continue;
    const found = at.params.find((each: Node) => leftOf(each).name === name);
    if (found !== undefined) return found;
    if (at.params.flatMap(namesIn).includes(name)) return at.params[0];
  }
  return nodes.find(({ type, id, init }) =>
    type === "VariableDeclarator" && id.name === name && init && !isFunction(init)
  );
}

function ownNames({ nodes }: Tree): string[] {
  return nodes.flatMap((node) => {
    if (node.type === "FunctionDeclaration") return [node.id?.name ?? ""];
    if (node.type === "VariableDeclarator" && node.init && isFunction(node.init)) {
      return [node.id.name];
    }
    const isOurs = node.type === "ImportDeclaration" && String(node.source.value).startsWith(".");
    return isOurs ? node.specifiers.map(({ local }: Node) => local.name) : [];
  });
}
