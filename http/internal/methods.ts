/**
 * The methods that middleware does not lock: it sees all requests of its routes, also those that have
 * nothing to do with the lock. Wrapped handlers (`fetchLock`, `lambdaLock`) always have their lease.
 *
 * @module
 */

import { badValue } from "../../core/contract/options.ts";

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

/** Checks the option. */
export function checkMethods(what: string, methods: unknown): void {
  const isList = Array.isArray(methods) &&
    methods.every((method) => typeof method === "string" && /^[A-Z-]+$/.test(method));
  if (isList) return;
  throw new TypeError(badValue(what, "a list of methods in capitals", JSON.stringify(methods)));
}
