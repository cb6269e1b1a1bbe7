/**
 * Locks between the processes of this machine.
 *
 * @module
 */
import { FileLock } from "@holdfast/lock/file";
import type { BackendOf, OpenLock } from "../open_lock.ts";

/** Opens the lock. The kernel frees what a dead process held, so there is no time to set. */
export function open({ dir }: BackendOf<"file">): Promise<OpenLock> {
  const locks = new FileLock(dir === undefined ? {} : { dir });
  return Promise.resolve({ locks, [Symbol.asyncDispose]: () => locks[Symbol.asyncDispose]() });
}
