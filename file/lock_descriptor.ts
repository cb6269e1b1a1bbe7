/**
 * The descriptor of a locked file, for a child process that must keep the lock: `flock` locks the open file,
 * which a child shares that gets the descriptor, so it stays locked until the last of them has closed it.
 *
 * @module
 */
import { readdirSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
import { lockPath } from "./lock_directory.ts";

/** Where Linux lists the open files of this process. Deno tells descriptors in no other way. */
const OPEN_FILES = "/proc/self/fd";

/**
 * Finds the descriptor of the file that this process has locked for a name. Only for a process with one such
 * file. `null` where the system does not tell.
 */
export function descriptorOfLock(name: string): number | null {
  const file = basename(lockPath("", name));
  try {
    const found = readdirSync(OPEN_FILES).find((fd) => basename(target(fd)) === file);
    return found === undefined ? null : Number(found);
  } catch {
    return null; // another system, or no right to look
  }
}

function target(fd: string): string {
  try {
    return readlinkSync(`${OPEN_FILES}/${fd}`);
  } catch {
    return ""; // that of the list itself, which is closed by now
  }
}
