/** The greatest token that every strategy and every store can represent. */
export const MAX_TOKEN = 2n ** 63n - 1n;

/**
 * A store that remembers the greatest fencing token of each resource.
 *
 * @example Usage
 * ```ts
 * import { type FenceStore, MemoryFences } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * const fences: FenceStore = new MemoryFences();
 * assertEquals(await fences.raise("orders:42", 7n), true);
 * assertEquals(await fences.raise("orders:42", 6n), false);
 * assertEquals(await fences.check("orders:42", 8n), true);
 * ```
 */
export interface FenceStore {
  /**
   * Remembers a token, unless a greater one was seen. Compares and remembers in one step.
   *
   * @returns `false` if the token is stale, because a greater one was seen. An equal one is not stale.
   * @throws {TypeError} If the token is not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   */
  raise(resource: string, token: bigint): boolean | Promise<boolean>;
  /**
   * Compares a token with the greatest one, and does not remember it: for shared leases, of which the one
   * with the greatest token must not lock out the others.
   *
   * @returns `false` if the token is stale, because a greater one was seen. An equal one is not stale.
   * @throws {TypeError} If the token is not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   */
  check(resource: string, token: bigint): boolean | Promise<boolean>;
}

/**
 * The fencing token is stale, because a later lease has used the resource. Nothing was written.
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

  /** Creates an error. */
  constructor(resource: string, token: bigint) {
    super(
      `Cannot use fencing token ${token} for resource ${
        JSON.stringify(resource)
      }: a later lease has ` +
        "used it with a greater token; acquire the lock again",
    );
    this.resource = resource;
    this.token = token;
  }
}

/**
 * Checks that a value is a fencing token.
 *
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
    throw new TypeError(
      `Cannot use the fencing token: it must be a bigint such as 'lease.fencingToken', ` +
        `but it is of type ${typeof token}`,
    );
  }
  if (token < 0n || token > MAX_TOKEN) {
    throw new RangeError(
      `Cannot use the fencing token ${token}: it must not be negative or need more than 63 bits`,
    );
  }
}

/**
 * A store in the memory of one process, for resources that only this process writes to. It is empty after
 * a restart. It keeps every resource name forever, so authorize a request before you pass its resource.
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
   * Remembers a token, unless a greater one was seen: then returns `false`. See {@linkcode FenceStore.raise}.
   *
   * @throws {TypeError} If the token is not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   */
  raise(resource: string, token: bigint): boolean {
    if (!this.check(resource, token)) return false;
    this.#greatest.set(resource, token);
    return true;
  }

  /**
   * Compares a token with the greatest one, without remembering it: returns `false` if it is less. See
   * {@linkcode FenceStore.check}.
   *
   * @throws {TypeError} If the token is not a bigint.
   * @throws {RangeError} If the token is negative or needs more than 63 bits.
   */
  check(resource: string, token: bigint): boolean {
    checkToken(token);
    return token >= (this.#greatest.get(resource) ?? 0n);
  }
}
