/**
 * The syntax tree of Deno's own parser, which Deno offers only under `deno test`.
 *
 * @module
 */

/** A node, of any type: a search asks each one for what only some have. */
// deno-lint-ignore no-explicit-any -- a union of all nodes would need a cast for each property
export type Node = any;

/** Whether a node is a function of any form. */
export function isFunction({ type }: Node): boolean {
  return type === "ArrowFunctionExpression" || type === "FunctionExpression" ||
    type === "FunctionDeclaration";
}

/** The nodes below each node. */
export class Tree {
  readonly nodes: readonly Node[];
  readonly #children = new Map<Node, Node[]>();

  constructor(nodes: readonly Node[]) {
    this.nodes = nodes;
    for (const node of nodes) {
      const children = this.#children.get(node.parent);
      if (children === undefined) this.#children.set(node.parent, [node]);
      else children.push(node);
    }
  }

  /** All nodes inside one that its own function executes; nothing below a node that is skipped. */
  inside(node: Node, skips: (node: Node) => boolean = () => false): Node[] {
    const children = this.#children.get(node) ?? [];
    return children.filter((child) => !isFunction(child))
      .flatMap((child) => skips(child) ? [child] : [child, ...this.inside(child, skips)]);
  }
}

/** A parsed file. */
export interface Parsed {
  readonly tree: Tree;
  /** The comments, each from its first character to behind its last one. */
  readonly comments: readonly (readonly [start: number, end: number])[];
}

/**
 * Parses a file and reads it.
 *
 * @param read Reads it. Nodes cannot be used later.
 * @throws {Error} If Deno cannot parse it.
 */
export function parse<T>(path: string, text: string, read: (parsed: Parsed) => T): T {
  let result: { readonly value: T } | undefined;
  const nodes: Node[] = [];
  const create = ({ sourceCode }: Deno.lint.RuleContext) => ({
    "*": (node: Node) => void nodes.push(node),
    "Program:exit": () => {
      const comments = sourceCode.getAllComments().map(({ range }) => range);
      result = { value: read({ tree: new Tree(nodes), comments }) };
    },
  });
  Deno.lint.runPlugin({ name: "syntax", rules: { read: { create } } }, path, text);
  if (result === undefined) throw new Error(`Cannot parse ${path}`);
  return result.value;
}
