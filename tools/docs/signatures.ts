/**
 * Writes what entries export as text that is easy to compare: a line per symbol and per member, sorted,
 * without comments. Types are in `types.ts`.
 *
 * @module
 */
import {
  type FunctionNode,
  type MembersNode,
  membersText,
  type ParameterNode,
  parametersText,
  type PropertyNode,
  propertyText,
  sortedByName,
  type TypeNode,
  type TypeParameterNode,
  typeParametersText,
  typeText,
} from "./types.ts";

/** A symbol of a module. */
export interface SymbolNode {
  readonly name: string;
  readonly declarations: readonly DeclarationNode[];
}

/** A declaration of a symbol; a function has one for each overload. */
export interface DeclarationNode {
  readonly kind: string;
  readonly def?: DefinitionNode;
}

/** The parts of a declaration; its kind decides which of them there are. */
export interface DefinitionNode extends FunctionNode, Omit<MembersNode, "methods"> {
  readonly tsType?: TypeNode;
  readonly hasBody?: boolean;
  readonly isAbstract?: boolean;
  /** A class has the name of one, an interface the types of all. */
  readonly extends?: string | readonly TypeNode[];
  readonly superTypeParams?: readonly TypeNode[];
  readonly implements?: readonly TypeNode[];
  readonly constructors?: readonly ConstructorNode[];
  readonly methods?: readonly ClassMethodNode[];
  /** The symbols of a namespace. */
  readonly elements?: readonly SymbolNode[];
}

interface ConstructorNode {
  readonly accessibility?: string;
  readonly params?: readonly ParameterNode[];
}

interface ClassMethodNode {
  readonly name: string;
  readonly kind?: string;
  readonly optional?: boolean;
  readonly accessibility?: string;
  readonly isStatic?: boolean;
  readonly functionDef: FunctionNode & { readonly hasBody?: boolean };
}

/** Writes all symbols, sorted by name; members are indented. */
export function signaturesOf(symbols: readonly SymbolNode[]): string[] {
  return sortedByName(symbols).flatMap(({ name, declarations }) =>
    withoutImplementation(declarations, ({ def }) => def?.hasBody === true)
      .flatMap((declaration) => declarationLines(name, declaration))
  );
}

/** Leaves out the declaration that has the body, if there are others: its signature is not public. */
function withoutImplementation<T>(overloads: readonly T[], hasBody: (overload: T) => boolean): T[] {
  return overloads.length === 1 ? [...overloads] : overloads.filter((each) => !hasBody(each));
}

/**
 * Writes one declaration.
 *
 * @throws {Error} If it is of a kind that nothing here writes.
 */
function declarationLines(name: string, { kind, def = {} }: DeclarationNode): string[] {
  switch (kind) {
    case "reference":
      return [`export ${name}`];
    case "variable":
      return [`const ${name}: ${typeText(def.tsType)}`];
    case "typeAlias":
      return [`type ${name}${typeParametersText(def.typeParams)} = ${typeText(def.tsType)}`];
    case "function":
      return [`function ${name}${parametersText(def)}: ${typeText(def.returnType)}`];
    case "interface":
      return [
        `interface ${name}${headOf(def)}`,
        ...membersText(def as MembersNode).map(indented),
      ];
    case "class":
      return [
        `${def.isAbstract ? "abstract " : ""}class ${name}${headOf(def)}`,
        ...classMembers(def).map(indented),
      ];
    case "namespace":
      return [`namespace ${name}`, ...signaturesOf(def.elements ?? []).map(indented)];
    default:
      throw new Error(
        `Cannot write ${name}, of the kind "${kind}": add it to tools/docs/signatures.ts`,
      );
  }
}

/** The type parameters of a class or an interface, and the types that it extends and implements. */
function headOf(def: DefinitionNode): string {
  const parents = typeof def.extends === "string"
    ? [def.extends + superArguments(def.superTypeParams)]
    : (def.extends ?? []).map(typeText);
  const contracts = (def.implements ?? []).map(typeText);
  return typeParametersText(def.typeParams as readonly TypeParameterNode[] | undefined) +
    (parents.length > 0 ? ` extends ${parents.join(", ")}` : "") +
    (contracts.length > 0 ? ` implements ${contracts.join(", ")}` : "");
}

function superArguments(types: readonly TypeNode[] = []): string {
  return types.length === 0 ? "" : `<${types.map(typeText).join(", ")}>`;
}

/** The constructors and members of a class that its users can reach. */
function classMembers({ constructors = [], properties = [], methods = [] }: DefinitionNode) {
  const members = [
    ...properties.filter(isReachable).map((property: PropertyNode) => ({
      name: property.name,
      text: accessOf(property) + propertyText(property),
    })),
    ...overloadsOf(methods.filter(isReachable)).map((method) => ({
      name: method.name,
      text: accessOf(method) + classMethodText(method),
    })),
  ];
  return [
    ...constructors.filter(isReachable).map((each) => `new ${parametersText(each)}`),
    ...sortedByName(members).map(({ text }) => text),
  ];
}

/** The methods, without the implementations of overloads. A getter and a setter are two methods. */
function overloadsOf(methods: readonly ClassMethodNode[]): ClassMethodNode[] {
  const groups = Map.groupBy(methods, ({ name, kind, isStatic }) => [name, kind, isStatic].join());
  return [...groups.values()].flatMap((overloads) =>
    withoutImplementation(overloads, ({ functionDef }) => functionDef.hasBody === true)
  );
}

function classMethodText(method: ClassMethodNode): string {
  const { name, kind, optional = false, isStatic = false, functionDef } = method;
  const prefix = isStatic ? "static " : "";
  if (kind === "setter") return `${prefix}set ${name}${parametersText(functionDef)}`;
  const returned = typeText(functionDef.returnType);
  if (kind === "getter") return `${prefix}get ${name}(): ${returned}`;
  return `${prefix}${name}${optional ? "?" : ""}${parametersText(functionDef)}: ${returned}`;
}

function isReachable({ accessibility }: { readonly accessibility?: string }): boolean {
  return accessibility !== "private";
}

function accessOf({ accessibility }: { readonly accessibility?: string }): string {
  return accessibility === "protected" ? "protected " : "";
}

function indented(line: string): string {
  return `  ${line}`;
}
