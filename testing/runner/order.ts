/**
 * The order of the test files in a run, which follows from a seed.
 *
 * @module
 */
import { randomOf } from "../processes/random.ts";
import { strategyOf } from "./select.ts";

const SEEDS = 1_000_000;

/** A seed that is short to write. */
export function newSeed(): number {
  return Math.floor(Math.random() * SEEDS);
}

/** Returns the files, or other items, in random order. */
export function shuffled<T>(items: readonly T[], seed: number): T[] {
  const random = randomOf(seed);
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  return order;
}

/**
 * The same, but with the files that take long before the others: a long file that begins last would run
 * alone at the end.
 */
export function slowFirst(files: readonly string[], seed: number): string[] {
  const order = shuffled(files, seed);
  return [...order.filter(isSlow), ...order.filter((file) => !isSlow(file))];
}

/** Files that start servers, or other runtimes. */
function isSlow(file: string): boolean {
  const strategy = strategyOf(file);
  return strategy === "redis" || strategy === "zookeeper" ||
    /\btests\/(?:npm|faults|command|open|examples)\//.test(file);
}
