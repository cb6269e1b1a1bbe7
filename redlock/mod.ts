/**
 * The calls of the package redlock, versions 5 and 4 and their forks, on the locks of this package: for
 * programs that are written for them. New programs use `RedisLock`.
 *
 * @example What changes in a program
 * ```ts ignore
 * // was: import Redlock from "redlock";
 * import { Redlock } from "@holdfast/lock/redlock";
 * import { Redis } from "ioredis";
 *
 * const redlock = new Redlock([new Redis("redis://127.0.0.1:6379")]);
 * const lock = await redlock.acquire(["orders:42"], 5_000);
 * try {
 *   console.log(lock.value, lock.expiration);
 * } finally {
 *   await lock.release();
 * }
 * await redlock.quit();
 * ```
 *
 * @module
 */
export type { RedlockAbortSignal } from "./clocked_signal.ts";
export {
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  ResourceLockedError,
} from "./errors.ts";
export { Lock, Redlock, type RedlockUsingContext, type Routine } from "./redlock.ts";
export type { RedlockClient, RedlockSettings } from "./settings.ts";
