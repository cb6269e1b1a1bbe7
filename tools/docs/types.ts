/**
 * Writes the types of `deno doc --json` as TypeScript does. Symbols are in `signatures.ts`.
 *
 * @module
 */

/** A type, as `deno doc --json` describes it; its value depends on its kind. */
export interface TypeNode {
  readonly kind: string;
  /** The type as text; missing for most types that consist of others. */
  readonly repr?: string;
  readonly value?: unknown;
}

/** A parameter of a function. */
export interface ParameterNode {
  readonly kind: string;
  readonly name?: string;
  readonly optional?: boolean;
  readonly tsType?: TypeNode;
  /** The parameter that a default value belongs to. */
  readonly left?: ParameterNode;
  /** The parameter that takes all other arguments. */
  readonly arg?: ParameterNode;
}

/** A type parameter. */
export interface TypeParameterNode {
  readonly name: string;
  readonly constraint?: TypeNode;
  readonly default?: TypeNode;
}

/** A function, a method or a constructor. */
export interface FunctionNode {
  readonly params?: readonly ParameterNode[];
  readonly typeParams?: readonly TypeParameterNode[];
  readonly returnType?: TypeNode;
}

/** A property of an interface, a class or a type literal. */
export interface PropertyNode {
  readonly name: string;
  readonly optional?: boolean;
  readonly readonly?: boolean;
  readonly isStatic?: boolean;
  readonly accessibility?: string;
  readonly tsType?: TypeNode;
}

/** A method of an interface or a type literal. */
export interface MethodNode extends FunctionNode {
  readonly name: string;
  readonly optional?: boolean;
}

/** A call or an index signature; its `tsType` is what it returns. */
export interface SignatureNode extends FunctionNode {
  readonly tsType?: TypeNode;
}

/** The members that interfaces and type literals have. */
export interface MembersNode {
  readonly properties?: readonly PropertyNode[];
  readonly methods?: readonly MethodNode[];
  readonly callSignatures?: readonly SignatureNode[];
  readonly indexSignatures?: readonly SignatureNode[];
}

/** Writes the value of a type of one kind. */
type Writer = (value: never) => string;

const WRITERS: Readonly<Record<string, Writer>> = {
  literal: (value: LiteralValue) => literalText(value),
  typeRef: (value: ReferenceValue) => value.typeName + argumentsText(value.typeParams),
  union: (parts: readonly TypeNode[]) => parts.map(typeText).join(" | "),
  intersection: (parts: readonly TypeNode[]) => parts.map(typeText).join(" & "),
  array: (element: TypeNode) => `${typeText(element)}[]`,
  tuple: (parts: readonly TypeNode[]) => `[${parts.map(typeText).join(", ")}]`,
  parenthesized: (inner: TypeNode) => `(${typeText(inner)})`,
  rest: (inner: TypeNode) => `...${typeText(inner)}`,
  optional: (inner: TypeNode) => `${typeText(inner)}?`,
  typeOperator: ({ operator, tsType }: OperatorValue) => `${operator} ${typeText(tsType)}`,
  fnOrConstructor: (value: FunctionValue) =>
    `${value.constructor === true ? "new " : ""}${parametersText(value)} => ` +
    typeText(value.tsType),
  typePredicate: ({ asserts, param, type }: PredicateValue) =>
    `${asserts ? "asserts " : ""}${param.name ?? "this"}${type ? ` is ${typeText(type)}` : ""}`,
  typeLiteral: (value: MembersNode) => {
    const members = membersText(value);
    return members.length === 0 ? "{}" : `{ ${members.join("; ")} }`;
  },
};

interface LiteralValue {
  readonly kind: string;
  readonly string?: string;
}

interface ReferenceValue {
  readonly typeName: string;
  readonly typeParams?: readonly TypeNode[];
}

interface OperatorValue {
  readonly operator: string;
  readonly tsType: TypeNode;
}

interface PredicateValue {
  readonly asserts: boolean;
  readonly param: { readonly name?: string };
  readonly type?: TypeNode;
}

interface FunctionValue extends FunctionNode {
  readonly constructor: boolean;
  readonly tsType: TypeNode;
}

/**
 * Writes a type.
 *
 * @throws {Error} If there is no type, or it is of a kind that nothing here writes.
 */
export function typeText(type: TypeNode | undefined): string {
  if (type === undefined) throw new Error("Cannot write a type that the code does not name");
  const write = WRITERS[type.kind];
  // A literal's own text has no quotes, and that of a reference no arguments.
  if (write !== undefined && "value" in type) return plainText(type, write);
  if (type.repr) return type.repr;
  throw new Error(`Cannot write a type of the kind "${type.kind}": add it to tools/docs/types.ts`);
}

function plainText({ kind, repr, value }: TypeNode, write: Writer): string {
  const isNumber = kind === "literal" && (value as LiteralValue).string === undefined;
  return isNumber && repr ? repr : write(value as never);
}

/** Writes the parameters of a function, with its type parameters. */
export function parametersText({ params = [], typeParams = [] }: FunctionNode): string {
  return `${typeParametersText(typeParams)}(${params.map(parameterText).join(", ")})`;
}

/** Writes type parameters with their constraints and defaults; nothing if there are none. */
export function typeParametersText(parameters: readonly TypeParameterNode[] = []): string {
  if (parameters.length === 0) return "";
  const texts = parameters.map(({ name, constraint, default: usual }) =>
    name + (constraint ? ` extends ${typeText(constraint)}` : "") +
    (usual ? ` = ${typeText(usual)}` : "")
  );
  return `<${texts.join(", ")}>`;
}

/** Writes the members of an interface or a type literal, sorted by name. */
export function membersText(
  { properties = [], methods = [], callSignatures = [], indexSignatures = [] }: MembersNode,
): string[] {
  const named = [
    ...properties.map((property) => ({ name: property.name, text: propertyText(property) })),
    ...methods.map((method) => ({ name: method.name, text: methodText(method) })),
  ];
  return [
    ...callSignatures.map((call) => `${parametersText(call)}: ${typeText(call.tsType)}`),
    ...indexSignatures.map(({ params = [], tsType }) =>
      `[${params.map(parameterText).join(", ")}]: ${typeText(tsType)}`
    ),
    ...sortedByName(named).map(({ text }) => text),
  ];
}

/** Writes a property. */
export function propertyText(property: PropertyNode): string {
  const { name, optional = false, readonly: isReadonly = false, isStatic = false } = property;
  return `${isStatic ? "static " : ""}${isReadonly ? "readonly " : ""}${nameText(name)}` +
    `${optional ? "?" : ""}: ${typeText(property.tsType)}`;
}

/** Sorts by name; overloads keep their order, which decides which of them the compiler takes. */
export function sortedByName<T extends { readonly name: string }>(items: readonly T[]): T[] {
  return items.toSorted((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function methodText(method: MethodNode): string {
  const { name, optional = false, returnType } = method;
  return `${nameText(name)}${optional ? "?" : ""}${parametersText(method)}: ${
    typeText(returnType)
  }`;
}

/** A member's name, in quotes if it is not a word. */
function nameText(name: string): string {
  return /^[\w$]+$|^\[/.test(name) ? name : JSON.stringify(name);
}

function parameterText(parameter: ParameterNode): string {
  const { kind, name, optional = false, tsType, left, arg } = parameter;
  if (kind === "assign" && left) return parameterText({ ...left, optional: true });
  if (kind === "rest" && arg) return `...${arg.name}: ${typeText(tsType ?? arg.tsType)}`;
  return `${name ?? "options"}${optional ? "?" : ""}: ${typeText(tsType)}`;
}

function argumentsText(types: readonly TypeNode[] = []): string {
  return types.length === 0 ? "" : `<${types.map(typeText).join(", ")}>`;
}

function literalText({ string }: LiteralValue): string {
  return JSON.stringify(string);
}
