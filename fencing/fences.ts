/**
 * The fencing tokens that a resource has seen: the store's interface, a store in memory, the error.
 *
 * @module
 */

/** Greatest token that all strategies and stores can hold. */
const MAX_TOKEN = 2n ** 63n - 1n;

/**
 * The greatest token that each resource has seen.
 *
 * @example Usage
 * ```ts
 * import { type FenceStore, MemoryFences } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * const fences: FenceStore = new MemoryFences();
 * assertEquals(await fences.raise("orders:42", 7n), true);
 * assertEquals(await fences.raise("orders:42", 6n), false);
 * ```
 */
export interface FenceStore {
  /**
   * Remembers a token if no greater one was seen.
   *
   * @param resource The resource that the token is for.
   * @param token The token of the caller's lease.
   * @returns `false` if it is stale: a greater one was seen.
   */
  raise(resource: string, token: bigint): boolean | Promise<boolean>;
}

/**
 * The token is stale: a later lease has used the resource. Nothing was written.
 *
 * @example Usage
 * ```ts
 * import { StaleTokenError } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(new StaleTokenError("orders:42", 6n).token, 6n);
 * ```
 */
export class StaleTokenError extends Error {
  /** The resource that the token was for. */
  readonly resource: string;
  /** The token that was rejected. */
  readonly token: bigint;
  /** The name of the class. */
  override readonly name = "StaleTokenError";

  /**
   * Creates an error.
   *
   * @param resource The resource that the token was for.
   * @param token The token that was rejected.
   */
  constructor(resource: string, token: bigint) {
    super(
      `Cannot use fencing token ${token} for ${JSON.stringify(resource)}: a greater one was seen`,
    );
    this.resource = resource;
    this.token = token;
  }
}

/**
 * Checks that a value is a fencing token.
 *
 * @param token A token as a lease has it.
 * @throws {TypeError} If it is not a bigint.
 * @throws {RangeError} If it is negative or needs more than 63 bits.
 *
 * @example Usage
 * ```ts
 * import { checkToken } from "@holdfast/lock/fencing";
 * import { assertThrows } from "@std/assert";
 *
 * checkToken(7n);
 * assertThrows(() => checkToken(-1n), RangeError);
 * ```
 */
export function checkToken(token: unknown): asserts token is bigint {
  if (typeof token !== "bigint") {
    throw new TypeError("Cannot use the fencing token: it is no bigint");
  }
  if (token < 0n || token > MAX_TOKEN) {
    throw new RangeError(`Cannot use the fencing token ${token}: it must fit into 63 bits`);
  }
}

/**
 * Tokens in the memory of one process, for a resource that lives there. Remembers every resource that
 * it was called with, so authorize a request before its resource is passed on.
 *
 * @example Usage
 * ```ts
 * import { MemoryFences } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * const fences = new MemoryFences();
 * assertEquals([fences.raise("a", 7n), fences.raise("a", 6n), fences.raise("b", 6n)], [
 *   true,
 *   false,
 *   true,
 * ]);
 * ```
 */
export class MemoryFences implements FenceStore {
  readonly #greatest = new Map<string, bigint>();

  /**
   * Remembers a token if no greater one was seen.
   *
   * @param resource The resource that the token is for.
   * @param token The token of the caller's lease.
   * @returns `false` if it is stale.
   * @throws {RangeError} If it is negative or needs more than 63 bits.
   */
  raise(resource: string, token: bigint): boolean {
    checkToken(token);
    if (token < (this.#greatest.get(resource) ?? 0n)) return false;
    this.#greatest.set(resource, token);
    return true;
  }
}
