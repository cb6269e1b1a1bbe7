/**
 * Locks between the processes of one machine, on files: no server needed. Node needs the package `koffi`.
 *
 * @example Usage
 * ```ts
 * import { FileLock } from "@holdfast/lock/file";
 * import { assertEquals } from "@std/assert";
 *
 * const dir = await Deno.makeTempDir();
 * {
 *   await using locks = new FileLock({ dir });
 *   assertEquals(await locks.request("backup", () => "done"), "done");
 * }
 * await Deno.remove(dir, { recursive: true });
 * ```
 *
 * @module
 */
export { FileLock } from "./file_lock.ts";
export { type FileLockOptions } from "./options.ts";
