/**
 * The syntax tree of Deno's parser.
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
