/**
 * Random numbers from a seed, so that a run can be repeated.
 *
 * @module
 */
import process from "node:process";

/** The seed of this run: `HOLDFAST_SEED`, or a new one. The test prints it. */
export function seedOf(): number {
  return Number(process.env["HOLDFAST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
}

/** A small generator of numbers from 0 (inclusive) to 1 (exclusive). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/**
 * Returns a generator of random numbers from 0 to 1. It prints its seed: set `HOLDFAST_SEED` to repeat
 * them.
 *
 * @param what What is random, for the line.
 */
export function randomFrom(what: string): () => number {
  const seed = seedOf();
  // deno-lint-ignore no-console -- without the seed a failure cannot be repeated
  console.log(`${what}: HOLDFAST_SEED=${seed}`);
  return randomOf(seed);
}
