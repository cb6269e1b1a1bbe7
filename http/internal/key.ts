/**
 * The key of a request: the name of its lock, or the reason why it has none. Which names a lock can have
 * is checked in `acquire.ts`.
 *
 * @module
 */
import { badValue, describe } from "../../core/contract/options.ts";
import { refusalOf } from "./http_error.ts";
import type { Problem } from "./problem.ts";

/**
 * The type of {@linkcode NO_LOCK}. Not that of the symbol: TypeScript would widen it to `symbol` in the
 * result of a function that is declared apart.
 */
export interface NoLock {
  /** Only there to tell the type from all others. */
  readonly "@holdfast/lock": "NO_LOCK";
}

/**
 * The result of a key function for a request that needs no lock. It is explicit, so that no client skips
 * the lock by leaving out what the key is made of: `undefined` is an error.
 *
 * @example Only one method needs the lock
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { NO_LOCK } from "@holdfast/lock/http";
 * import { honoLock } from "@holdfast/lock/http/hono";
 * import { Hono } from "hono";
 *
 * await using locks = new MemoryLock();
 * const app = new Hono();
 * app.use(honoLock(locks, { key: (c) => c.req.raw.method === "GET" ? NO_LOCK : "orders" }));
 * ```
 */
export const NO_LOCK: NoLock = Symbol.for("@holdfast/lock/NO_LOCK") as unknown as NoLock;

/**
 * The name of the lock, or a function that returns it, or {@linkcode NO_LOCK} if the request needs none.
 *
 * - Make the name of what the request is about, decoded and validated, such as the number of an order,
 *   not of the URL: `/orders/42`, `/orders/%34%32` and `/orders/42/` would be three locks.
 * - If the request lacks something, throw an error with a `statusCode` from 400 to 499: the client gets
 *   this status and the error's `message` and `headers`. A `URIError`, as of `decodeURIComponent()`, is a
 *   400.
 * - A name that no lock can have (empty, longer than 1,000 characters, not well-formed Unicode) is a 400,
 *   since it may come from the request.
 * - Any other error, and any other result, `undefined` among them, fails the request like an error of
 *   the handler, which does not run.
 */
export type LockKey<
  Args extends unknown[],
  Key extends string | NoLock = string | NoLock,
> = string | ((...args: Args) => Key | Promise<Key>);

/** Whether a value is {@linkcode NO_LOCK}. */
export function isNoLock(value: unknown): value is NoLock {
  return value === NO_LOCK;
}

/** A key that its function has refused to make, as the request lacks something. */
export interface RefusedKey {
  readonly problem: Problem;
  readonly cause: unknown;
}

/** The key of one request. */
export type RequestKey = string | NoLock | RefusedKey;

/** Whether the function has refused to make a key. */
export function isRefused(key: RequestKey): key is RefusedKey {
  return typeof key === "object";
}

/**
 * Determines the key of a request.
 *
 * @throws {TypeError} If the key is not a string: a bug of the program.
 * @throws Whatever the function throws, unless that is meant for the client.
 */
export async function keyOf<Args extends unknown[]>(
  key: LockKey<Args>,
  ...args: Args
): Promise<RequestKey> {
  if (typeof key === "string") return key;
  let made: unknown;
  try {
    made = await key(...args);
  } catch (cause) {
    const problem = refusalOf(cause);
    if (problem === null) throw cause;
    return { problem, cause };
  }
  if (typeof made === "string" || isNoLock(made)) return made;
  throw new TypeError(
    `Cannot lock the request: its key must be a string, but it is ${describe(made)}; return ` +
      "NO_LOCK to run without a lock, or throw an error with 'statusCode: 400' if the request lacks " +
      "something",
  );
}

/** Checks the key when the server starts. */
export function checkKey(what: string, key: unknown): void {
  if (typeof key === "string" || typeof key === "function") return;
  throw new TypeError(badValue(what, "a string or a function", describe(key)));
}
