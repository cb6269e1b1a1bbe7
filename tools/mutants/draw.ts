/**
 * Draws mutations at random, from a seed.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { shuffled } from "../../testing/runner/order.ts";
import { isGenerated } from "../generated.ts";
import { type Mutation, mutationsIn } from "./mutations.ts";

/** A mutation of a file. */
export interface Mutant extends Mutation {
  /** The path of the file from the root of the project. */
  readonly path: string;
  /** The text of the file without the mutation. */
  readonly text: string;
}

/** How many digits of a commit's hash make a seed. */
const SEED_DIGITS = 7;

/** The seeds of a commit: three, so that different mutants can be drawn and drawn again. */
export function seedsOf(commit: string): number[] {
  return [0, 1, 2].map((i) => parseInt(commit.slice(i * SEED_DIGITS, (i + 1) * SEED_DIGITS), 16));
}

/**
 * All mutants of the TypeScript in some folders, in an order that follows from the seed. Generated files
 * have none.
 *
 * @param root The root of the project.
 * @param paths Folders and files, by their paths from the root.
 */
export function drawMutants(root: string, paths: readonly string[], seed: number): Mutant[] {
  const files = [...new Set(paths.flatMap((path) => sourcesIn(root, path)))].toSorted();
  const mutants = files.flatMap((path) => {
    const text = readFileSync(`${root}/${path}`, "utf8");
    return isGenerated(text) ? [] : mutationsIn(text).map((each) => ({ ...each, path, text }));
  });
  return shuffled(mutants, seed);
}

function sourcesIn(root: string, path: string): string[] {
  if (path.endsWith(".ts")) return [path];
  return readdirSync(`${root}/${path}`, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `${path.replace(/\/$/, "")}/${name}`);
}
