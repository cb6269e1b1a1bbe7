/**
 * The methods that middleware does not lock: it sees all requests of its routes, also those that have
 * nothing to do with the lock. Wrapped handlers (`fetchLock`, `lambdaLock`) always have their lease.
 *
 * @module
 */

/** The option of middleware for methods without a lock. */
export interface MethodOptions {
  /**
   * The methods, in capitals, whose requests run *without* the lock and without a lease. A handler must
   * change nothing under them; that of GET neither, since HEAD runs it. `[]` locks all methods.
   *
   * @default {["HEAD", "OPTIONS"]}
   */
  unlockedMethods?: readonly string[];
}

/** Default of {@linkcode MethodOptions.unlockedMethods}. */
export const DEFAULT_UNLOCKED_METHODS: readonly string[] = ["HEAD", "OPTIONS"];

/**
 * Fills in the default, and checks the option when the server starts.
 *
 * @throws {TypeError} If the option is not a list of methods in capitals.
 */
export function readMethods(
  { unlockedMethods = DEFAULT_UNLOCKED_METHODS }: MethodOptions,
): ReadonlySet<string> {
  const isGood = Array.isArray(unlockedMethods) &&
    unlockedMethods.every((method) => typeof method === "string" && /^[A-Z-]+$/.test(method));
  if (isGood) return new Set(unlockedMethods);
  throw new TypeError(
    "Cannot use 'unlockedMethods' as it must be a list of methods in capitals: it is " +
      JSON.stringify(unlockedMethods),
  );
}
