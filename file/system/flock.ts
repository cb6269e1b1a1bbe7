/**
 * `flock(2)` as Node and Bun call it: its operations and its errors. Each runtime loads it in a file of
 * its own.
 *
 * @module
 */
import { constants } from "node:os";

/** Calls `flock`. Returns 0, or the `errno` of a failure. */
export type Flock = (fd: number, operation: number) => number;

/** The same numbers on Linux, macOS and the BSDs. */
const OPERATION = { shared: 1, exclusive: 2, withoutWaiting: 4, unlock: 8 } as const;

/** 11 on Linux, 35 on macOS. No other error means that the file is locked. */
const { EWOULDBLOCK } = constants.errno;

/**
 * Locks an open file without waiting. Returns `false` if another open file has locked it.
 *
 * @throws {Error} If `flock` fails for any other reason.
 */
export function tryLockBy(flock: Flock, fd: number, isExclusive: boolean): boolean {
  const operation = isExclusive ? OPERATION.exclusive : OPERATION.shared;
  const errno = flock(fd, operation | OPERATION.withoutWaiting);
  if (errno === 0) return true;
  if (errno === EWOULDBLOCK) return false;
  throw failure(errno);
}

/** Unlocks an open file; throws if `flock` fails. */
export function unlockBy(flock: Flock, fd: number): void {
  const errno = flock(fd, OPERATION.unlock);
  if (errno !== 0) throw failure(errno);
}

function failure(errno: number): Error {
  const code = Object.entries(constants.errno).find(([, number]) => number === errno)?.[0];
  return Object.assign(new Error(`flock failed: ${code ?? "unknown"} (errno ${errno})`), { code });
}

/** The first result that is no error; throws the first error if there is none. */
export function firstOf<T, U>(values: readonly T[], find: (value: T) => U): U {
  const errors: unknown[] = [];
  for (const value of values) {
    try {
      return find(value);
    } catch (error) {
      errors.push(error);
    }
  }
  throw errors[0];
}
