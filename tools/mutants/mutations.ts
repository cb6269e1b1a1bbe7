/**
 * Finds the small mutations of a source text: changed conditions, operators and constants, and dropped
 * statements. Types, comments and what creates an error stay as they are.
 *
 * @module
 */
// deno-lint-ignore no-import-prefix -- no other code needs a parser that is a package
import ts from "npm:typescript@5.8.3";

/** A small change of a source text that a test should notice. */
export interface Mutation {
  readonly kind: "condition" | "operator" | "constant" | "statement";
  /** Where the replaced text begins; the first line is 1. */
  readonly line: number;
  /** The replaced text, from its first character to behind its last one. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

type Kind = Mutation["kind"];

const { SyntaxKind } = ts;
const BINARY: ReadonlyMap<ts.SyntaxKind, readonly [kind: Kind, replacement: string]> = new Map([
  [SyntaxKind.LessThanToken, ["condition", "<="]],
  [SyntaxKind.LessThanEqualsToken, ["condition", "<"]],
  [SyntaxKind.GreaterThanToken, ["condition", ">="]],
  [SyntaxKind.GreaterThanEqualsToken, ["condition", ">"]],
  [SyntaxKind.EqualsEqualsEqualsToken, ["condition", "!=="]],
  [SyntaxKind.ExclamationEqualsEqualsToken, ["condition", "==="]],
  [SyntaxKind.AmpersandAmpersandToken, ["condition", "||"]],
  [SyntaxKind.BarBarToken, ["condition", "&&"]],
  [SyntaxKind.PlusToken, ["operator", "-"]],
  [SyntaxKind.MinusToken, ["operator", "+"]],
  [SyntaxKind.AsteriskToken, ["operator", "/"]],
  [SyntaxKind.SlashToken, ["operator", "*"]],
  [SyntaxKind.PlusEqualsToken, ["operator", "-="]],
  [SyntaxKind.MinusEqualsToken, ["operator", "+="]],
]);
const EQUALITIES: readonly ts.SyntaxKind[] = [
  SyntaxKind.EqualsEqualsEqualsToken,
  SyntaxKind.ExclamationEqualsEqualsToken,
];
const ERROR_CLASS = /(?:Error|Failure)$/;

/** All mutations of a text of TypeScript, in the order of their places. */
export function mutationsIn(text: string): Mutation[] {
  const file = ts.createSourceFile("source.ts", text, ts.ScriptTarget.Latest, true);
  const found: Mutation[] = [];
  const replace = (kind: Kind, start: number, end: number, replacement: string) => {
    const line = file.getLineAndCharacterOfPosition(start).line + 1;
    found.push({ kind, line, start, end, replacement });
  };
  const visit = (node: ts.Node): void => {
    if (isLeftAsItIs(node)) return;
    const [start, end] = [node.getStart(file), node.end];
    if (isNegatable(node)) replace("condition", start, end, `!(${text.slice(start, end)})`);
    const constant = otherConstant(node);
    if (constant !== undefined) replace("constant", start, end, constant);
    if (isDroppable(node)) replace("statement", start, end, ";");
    if (ts.isBinaryExpression(node)) {
      const [kind, operator] = BINARY.get(node.operatorToken.kind) ?? [];
      const { operatorToken } = node;
      if (kind) replace(kind, operatorToken.getStart(file), operatorToken.end, operator!);
    } else if (ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) {
      const at = ts.isPrefixUnaryExpression(node) ? start : node.operand.end;
      const [kind, length, operator] = otherUnary(node) ?? [];
      if (kind) replace(kind, at, at + length!, operator!);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found.toSorted((a, b) => a.start - b.start);
}

/** The text with the mutation. */
export function mutated(text: string, { start, end, replacement }: Mutation): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

/** The changed lines, as in a diff. */
export function diffOf(text: string, mutation: Mutation): string[] {
  const { start, end, replacement } = mutation;
  const before = linesAround(text, start, end);
  const after = linesAround(mutated(text, mutation), start, start + replacement.length);
  return [...before.map((line) => `- ${line}`), ...after.map((line) => `+ ${line}`)];
}

function linesAround(text: string, start: number, end: number): string[] {
  const from = text.lastIndexOf("\n", start - 1) + 1;
  const to = text.indexOf("\n", end);
  return text.slice(from, to < 0 ? undefined : to).split("\n").map((line) => line.trim());
}

/** Types, names of modules, and errors: a test of their texts would only repeat them. */
function isLeftAsItIs(node: ts.Node): boolean {
  return ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) || ts.isImportDeclaration(node) ||
    ts.isExportDeclaration(node) || ts.isNewExpression(node) && isErrorClass(node.expression);
}

function isErrorClass(node: ts.Expression): boolean {
  return ts.isIdentifier(node) && ERROR_CLASS.test(node.text);
}

/** Whether a node is a condition. One that is "not …" or compares for equality has its own mutation. */
function isNegatable(node: ts.Node): boolean {
  const { parent } = node;
  if (parent === undefined) return false;
  const isCondition = ts.isForStatement(parent) || ts.isConditionalExpression(parent)
    ? parent.condition === node
    : ts.isIfStatement(parent) || ts.isWhileStatement(parent) || ts.isDoStatement(parent)
    ? parent.expression === node
    : false;
  return isCondition && !isNot(node) && node.kind !== SyntaxKind.TrueKeyword &&
    !(ts.isBinaryExpression(node) && EQUALITIES.includes(node.operatorToken.kind));
}

function isNot(node: ts.Node): boolean {
  return ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken;
}

/** 1 for 0, the double of another number, the other boolean. */
function otherConstant(node: ts.Node): string | undefined {
  if (node.kind === SyntaxKind.TrueKeyword) return "false";
  if (node.kind === SyntaxKind.FalseKeyword) return "true";
  if (node.parent && ts.isPropertyAssignment(node.parent) && node.parent.name === node) return;
  if (ts.isNumericLiteral(node)) return String(2 * Number(node.text) || 1);
  if (ts.isBigIntLiteral(node)) return `${2n * BigInt(node.text.slice(0, -1)) || 1n}n`;
  return undefined;
}

/** The operator of a unary expression: its kind, its length, and what replaces it. */
function otherUnary(
  { operator }: ts.PrefixUnaryExpression | ts.PostfixUnaryExpression,
): [kind: Kind, length: number, replacement: string] | undefined {
  if (operator === SyntaxKind.PlusPlusToken) return ["operator", 2, "--"];
  if (operator === SyntaxKind.MinusMinusToken) return ["operator", 2, "++"];
  if (operator === SyntaxKind.MinusToken) return ["operator", 1, ""];
  if (operator === SyntaxKind.ExclamationToken) return ["condition", 1, ""];
  return undefined;
}

/** Whether a statement does something, or leaves a function or a loop early. */
function isDroppable(node: ts.Node): boolean {
  if (ts.isExpressionStatement(node)) return !ts.isStringLiteral(node.expression);
  if (ts.isReturnStatement(node)) return !isLastOfFunction(node);
  return ts.isThrowStatement(node) || ts.isContinueStatement(node) || ts.isBreakStatement(node);
}

function isLastOfFunction({ parent, end }: ts.ReturnStatement): boolean {
  return ts.isBlock(parent) && ts.isFunctionLike(parent.parent) &&
    parent.statements.at(-1)?.end === end;
}
