/**
 * The Web Locks API, as `navigator.locks` has it, across processes and machines.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { webLocks } from "@holdfast/lock/web-locks";
 * import { assertEquals } from "@std/assert";
 *
 * await using memory = new MemoryLock(); // or RedisLock, ZooKeeperLock, FileLock
 * const locks = webLocks(memory);
 * const read = await locks.request("catalog", { mode: "shared" }, ({ name, mode }) => `${name}, ${mode}`);
 * assertEquals(read, "catalog, shared");
 * ```
 *
 * @module
 */
export {
  type WebLock,
  type WebLockInfo,
  type WebLockOptions,
  type WebLocks,
  webLocks,
  type WebLockSnapshot,
  type WebLocksOptions,
} from "./web_locks.ts";
