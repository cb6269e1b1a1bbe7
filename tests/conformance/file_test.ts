import { readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { isFileLocked } from "../../testing/runtime/file_locks.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { makeArena } from "../../testing/conformance/arena.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

/** Files that killed processes left, or that a waiter has marked, may remain. They must not be locked. */
function lockedFiles(dir: string): string[] {
  return readdirSync(dir).filter((name) => isFileLocked(`${dir}/${name}`));
}

const file: Harness = {
  name: "file",
  capabilities: {
    fifo: "process",
    endsBy: "process-death",
    steal: false,
    attach: false,
    shared: false,
    limit: false,
    list: true,
  },
  processes: true,
  ttlMs: Infinity,
  knowsWaitersOfTry: false,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
  async arena() {
    const dir = await makeTempDirectory();
    return makeArena({
      spec: ({ label, disposeTimeoutMs }) => ({
        strategy: "file",
        dir,
        label,
        disposeTimeoutMs,
      }),
      async lose(lease) {
        // As if the temporary directory were cleaned up: the next caller creates a new file.
        await rm(lockPath(dir, lease.name));
      },
      residue: () => Promise.resolve(lockedFiles(dir)),
      close: () => rm(dir, { recursive: true }),
    });
  },
};

conformance(file);
