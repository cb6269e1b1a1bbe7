/**
 * Decides whether a loop waits for a condition, or only for a time or a number of rounds.
 *
 * @module
 */
import { isFunction, type Node, type Tree } from "../syntax/tree.ts";

/** The loop around a place: one that checks a condition, one that does not, or none. */
export type Loop = "condition" | "fixed" | "none";

const LOOPS = new Set([
  "WhileStatement",
  "DoWhileStatement",
  "ForStatement",
  "ForOfStatement",
  "ForInStatement",
]);
const COMPARISONS = new Set(["<", "<=", ">", ">=", "!==", "===", "!=", "=="]);

/** The kind of the nearest loop around a node, also outside an inline callback. */
export function loopAround(node: Node, tree: Tree): Loop {
  let child: Node = node;
  for (let at: Node = node.parent; at; child = at, at = at.parent) {
    if (
      at.type === "FunctionDeclaration" ||
      at.parent?.type === "VariableDeclarator" && isFunction(at)
    ) {
      return "none";
    }
    const runsOnce = child === at.init || child === at.right;
    if (LOOPS.has(at.type) && !runsOnce) return checksCondition(at, tree) ? "condition" : "fixed";
  }
  return "none";
}

function checksCondition(loop: Node, tree: Tree): boolean {
  const counters = countersOf(loop, tree);
  const operands = operandsOf(loop.test ?? undefined);
  if (operands.some((operand) => !isTime(operand, tree) && !isCount(operand, counters))) {
    return true;
  }
  return leavesByCondition(loop.body, counters, tree);
}

/** The names that a loop counts in each round. */
function countersOf(loop: Node, tree: Tree): Set<string> {
  const names = new Set<string>();
  for (const node of tree.inside(loop, (node) => node.type === "IfStatement")) {
    const isStep = node.type === "AssignmentExpression" && /^[+-]=$/.test(node.operator);
    if (node.type === "UpdateExpression") names.add(node.argument.name);
    if (isStep) names.add(node.left.name);
  }
  return names;
}

function operandsOf(test: Node): Node[] {
  if (test === undefined || test.type === "Literal") return [];
  if (test.type === "LogicalExpression") {
    return [...operandsOf(test.left), ...operandsOf(test.right)];
  }
  return [test];
}

/** Whether an operand reads a clock. */
function isTime(operand: Node, tree: Tree): boolean {
  return [operand, ...tree.inside(operand)].some(({ type, callee }) =>
    type === "CallExpression" && /^now/.test(callee.property?.name ?? callee.name ?? "")
  );
}

function isCount(operand: Node, counters: ReadonlySet<string>): boolean {
  if (operand.type === "UpdateExpression") return true;
  if (operand.type !== "BinaryExpression" || !COMPARISONS.has(operand.operator)) return false;
  return [operand.left, operand.right].some((side) =>
    side.type === "UpdateExpression" || counters.has(side.name)
  );
}

/** Whether the body ends the loop when something has happened other than time or rounds. */
function leavesByCondition(body: Node, counters: ReadonlySet<string>, tree: Tree): boolean {
  const exits = tree.inside(body).filter((node) =>
    node.type === "ReturnStatement" ||
    (node.type === "BreakStatement" && (node.label !== null || loopOf(node) === body.parent))
  );
  return exits.some((exit) => {
    for (let at: Node = exit; at !== body; at = at.parent) {
      if (at.parent.type === "TryStatement") return true;
      if (at.parent.type !== "IfStatement") continue;
      const operands = operandsOf(at.parent.test);
      if (operands.some((operand) => !isTime(operand, tree) && !isCount(operand, counters))) {
        return true;
      }
    }
    return false;
  });
}

/** The loop or the switch that a `break` leaves. */
function loopOf(node: Node): Node {
  const { parent } = node;
  return LOOPS.has(parent.type) || parent.type === "SwitchStatement" ? parent : loopOf(parent);
}
