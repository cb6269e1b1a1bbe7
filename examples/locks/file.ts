/**
 * Opens file locks, for the processes of one machine.
 *
 * @module
 */
import { FileLock } from "@holdfast/lock/file";
import type { BackendOf, OpenLock } from "../open_lock.ts";

/** Opens the lock. There is no TTL: the kernel frees the locks of a dead process. */
export function open({ dir }: BackendOf<"file">): Promise<OpenLock> {
  const locks = new FileLock(dir === undefined ? {} : { dir });
  return Promise.resolve({ locks, [Symbol.asyncDispose]: () => locks[Symbol.asyncDispose]() });
}
