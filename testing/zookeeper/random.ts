/**
 * Repeatable random numbers.
 *
 * @module
 */

/**
 * Returns a generator of random numbers from 0 to 1. It prints its seed: set `HOLDFAST_SEED` to
 * repeat them.
 */
export function randomFrom(what: string): () => number {
  const given = Deno.env.get("HOLDFAST_SEED");
  let state = given === undefined ? crypto.getRandomValues(new Uint32Array(1))[0]! : Number(given);
  // deno-lint-ignore no-console -- without the seed a failure cannot be repeated
  console.log(`${what}: HOLDFAST_SEED=${state}`);
  // Mulberry32: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
