/**
 * Judges the costs of the paths, and prints them.
 *
 * @module
 */
import type { Cost, PathCost } from "./growth.ts";

/** No search looks at more inboxes, and no sweep at more waiters. */
const MAX_LOOKED_AT = 64;
/** The greatest cost of a call, and how much more for each inbox or waiter that it looks at. */
const LIMITS = { commands: [64, 12], items: [64, 14] } as const;
/** A longer ticket, position and count in a reply. */
const MORE_DIGITS = 16;
/** Times differ by chance, and a search in a longer list takes a little longer. */
const TIME = { factor: 5, slackUs: 2_000 };

/** The costs of one path in one number of inboxes, by the number of waiters. */
export interface Growth {
  readonly stage: string;
  readonly path: string;
  /** `"each"` if each waiter has an inbox of its own. */
  readonly inboxes: string;
  readonly costs: readonly PathCost[];
}

/** Groups the costs by path and inboxes, each in the order of the sizes. */
export function growthOf(costs: readonly PathCost[]): Growth[] {
  const groups = Map.groupBy(costs, (cost) => {
    return JSON.stringify([cost.stage, cost.path, inboxesOf(cost)]);
  });
  return [...groups.values()].map((group) => {
    const [{ stage, path }] = group as [PathCost];
    const costs = group.sort((a, b) => a.size.waiters - b.size.waiters);
    return { stage, path, inboxes: inboxesOf(group[0]!), costs };
  });
}

function inboxesOf({ size: { waiters, inboxes } }: PathCost): string {
  return inboxes === waiters ? "each" : String(inboxes);
}

/** Sentences about the limits that the counts of a path exceed. */
export function excessesOf(growth: Growth): string[] {
  return boundedCosts(growth).flatMap((cost, _, [least]) => {
    const limitOf = (what: "commands" | "items") => {
      const [base, each] = LIMITS[what];
      return Math.min(base + each * MAX_LOOKED_AT, least![what]);
    };
    return [
      ...excessOf(growth, cost, "commands", limitOf("commands")),
      ...excessOf(growth, cost, "items", limitOf("items")),
      ...excessOf(growth, cost, "bytes", least!.bytes + MORE_DIGITS),
    ];
  });
}

/** Sentences about the calls of a path that take more time with more waiters. */
export function slowdownsOf(growth: Growth): string[] {
  return boundedCosts(growth).flatMap((cost, _, [least]) =>
    excessOf(growth, cost, "us", TIME.factor * least!.us + TIME.slackUs)
  );
}

/** The costs at the sizes from which on they may not grow. */
function boundedCosts({ inboxes, costs }: Growth): PathCost[] {
  // More inboxes, or more waiters where a script reads them, cost more up to a limit.
  const mayGrow = inboxes === "each" || costs.some(({ looksFurther }) => looksFurther);
  return costs.filter(({ size }) => !mayGrow || size.waiters > MAX_LOOKED_AT);
}

function excessOf(
  { stage, path, inboxes }: Growth,
  cost: PathCost,
  what: keyof Cost,
  limit: number,
): string[] {
  if (cost[what] <= limit) return [];
  const place = `${stage}: ${path}, ${cost.size.waiters} waiters, inboxes: ${inboxes}`;
  return [`${place}: ${cost[what]} ${what}, at most ${Math.round(limit)} allowed`];
}

/** A Markdown table: for each path the commands, items, bytes and µs at each size. */
export function tableOf(growths: readonly Growth[]): string {
  const sizes = growths[0]!.costs.map(({ size }) => size.waiters.toLocaleString("en"));
  const head = `at ${sizes.join(" / ")} waiters`;
  const each = (costs: readonly PathCost[], what: keyof Cost) =>
    costs.map((cost) => cost[what]).join(" / ");
  const rows = growths.map(({ stage, path, inboxes, costs }) =>
    [`${stage}: ${path}`, inboxes, ...COLUMNS.map(([what]) => each(costs, what))].join(" | ")
  );
  const title = ["path", "inboxes", ...COLUMNS.map(([, text]) => text)].join(" | ");
  const line = `| :-- | :-- ${"| --: ".repeat(COLUMNS.length)}|`;
  return [`Costs ${head}`, "", `| ${title} |`, line, ...rows.map((row) => `| ${row} |`)].join("\n");
}

const COLUMNS: readonly (readonly [keyof Cost, string])[] = [
  ["commands", "commands"],
  ["items", "items read"],
  ["bytes", "reply bytes"],
  ["us", "µs"],
];

/** The same, with the dearest path of each stage only. */
export function summaryOf(growths: readonly Growth[]): string {
  const stages = Map.groupBy(growths, ({ stage }) => stage);
  return tableOf([...stages].map(([stage, group]) => {
    const costs = group[0]!.costs.map((_, i) =>
      dearest(group.flatMap(({ costs }) => costs[i] ?? []))
    );
    return { stage, path: `the dearest of ${group.length}`, inboxes: "any", costs };
  }));
}

function dearest(costs: readonly PathCost[]): PathCost {
  const most = (what: keyof Cost) => Math.max(...costs.map((cost) => cost[what]));
  const figures = { commands: most("commands"), items: most("items"), bytes: most("bytes") };
  return { ...costs[0]!, ...figures, us: most("us") };
}
