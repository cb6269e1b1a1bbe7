import type { RequestOptions } from "../core/contract/distributed_lock.ts";
import { badValue, describe, notSupported } from "../core/contract/options.ts";

/**
 * Reads the arguments of `request()` as a browser reads those of `navigator.locks.request()`: converts values,
 * ignores unknown options, and refuses some names and combinations.
 *
 * @see {@link https://w3c.github.io/web-locks/#api-lock-manager-request}
 */
export function readArguments(
  args: readonly unknown[],
): RequestOptions & { readonly name: string; readonly callback: (lock: unknown) => unknown } {
  if (args.length < 2) {
    throw new TypeError("Cannot request a lock: pass its name and a callback");
  }
  const name = `${args[0]}`; // a symbol is a TypeError, as it should be
  const [options, callback] = args.length === 2 ? [undefined, args[1]] : [args[1], args[2]];
  const read = readOptions(options);
  if (typeof callback !== "function") {
    throw new TypeError(badValue("the callback", "a function", describe(callback)));
  }
  refuseConflicts(name, read);
  return { name, ...read, callback: callback as (lock: unknown) => unknown };
}

function readOptions(options: unknown): RequestOptions {
  const isNone = options === undefined || options === null;
  if (!isNone && typeof options !== "object" && typeof options !== "function") {
    throw new TypeError(badValue("the options", "an object", describe(options)));
  }
  const { ifAvailable, mode = "exclusive", signal, steal } = Object(options);
  const converted = `${mode}`;
  if (converted !== "exclusive" && converted !== "shared") {
    throw new TypeError(
      badValue("'mode'", '"exclusive" or "shared"', JSON.stringify(converted)),
    );
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new TypeError(badValue("'signal'", "an AbortSignal", describe(signal)));
  }
  return { ifAvailable: Boolean(ifAvailable), mode: converted, signal, steal: Boolean(steal) };
}

function refuseConflicts(name: string, { ifAvailable, mode, signal, steal }: RequestOptions): void {
  if (name.startsWith("-")) {
    throw notSupported(`Cannot request lock ${JSON.stringify(name)}: its name begins with "-"`);
  }
  if (steal && ifAvailable) {
    throw notSupported("Cannot use 'steal' with 'ifAvailable': a steal never waits");
  }
  if (steal && mode !== "exclusive") {
    throw notSupported("Cannot use 'steal' with mode \"shared\": a thief takes the lock alone");
  }
  if (signal !== undefined && (steal || ifAvailable)) {
    const other = steal ? "steal" : "ifAvailable";
    throw notSupported(`Cannot use 'signal' with '${other}': such a request never waits`);
  }
}
