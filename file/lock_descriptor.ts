import { readdirSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
import { lockPath } from "./lock_directory.ts";

/** Where Linux lists the open files of this process. Deno tells descriptors in no other way. */
const OPEN_FILES = "/proc/self/fd";

/**
 * Lists the open files of this process that are lock files of a name, whatever their directory; it may have inherited
 * some. Empty where the system does not tell. A child process that gets the descriptor keeps the lock: `flock` locks
 * the open file, which both share, until the last of them has closed it.
 */
export function lockDescriptors(name: string): number[] {
  const file = basename(lockPath("", name));
  try {
    return readdirSync(OPEN_FILES).filter((fd) => basename(target(fd)) === file).map(Number);
  } catch {
    return []; // another system, or no right to look
  }
}

function target(fd: string): string {
  try {
    return readlinkSync(`${OPEN_FILES}/${fd}`);
  } catch {
    return ""; // that of the list itself, which is closed by now
  }
}
