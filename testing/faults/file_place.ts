/**
 * The place of `FileLock`: a directory of lock files and its faults.
 *
 * @module
 */
// Paces a workload: a fault lasts until each holder must have noticed it.
import { mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { deleteUnused } from "../../file/deletion.ts";
import { lockPath, someLockFiles } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { TokenFile } from "../../file/tokens.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import type { Fault, FaultOutcome, FaultTable, Place, Stage } from "./place.ts";

/** A file lease has no TTL. The nemesis uses this time scale instead. */
const SCALE_MS = 500;
/** A holder notices within this time in ms that its file is gone. */
const NOTICED_MS = 1_100;

/** Opens the place in its own directory. */
export function filePlace(directory: string, names: readonly string[]): Place {
  const dir = `${directory}/locks`;
  create(dir); // The first fault may come before the first lock.
  return {
    ...{ strategy: "file", fifo: false, ttlMs: SCALE_MS, skipped: {} },
    specFor: () => ({ strategy: "file", dir }),
    linksOf: () => [],
    faults: fileFaults(dir, names),
    heal: () => Promise.resolve(),
    async residue(boundMs) {
      await using lock = new FileLock({ dir });
      let count = 0;
      await waitUntil("nothing is held", async () => {
        const seen = await Promise.all(names.map((name) => lock.query(name)));
        count = seen.filter(({ holders, waiterCount }) =>
          holders.length > 0 || waiterCount > 0
        ).length;
        return count === 0;
      }, boundMs).catch(() => {});
      return [{ what: "held lock files", count }];
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function create(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
}

function fileFaults(dir: string, names: readonly string[]): FaultTable {
  const nameOf = new Map(names.map((name) => [basename(lockPath(dir, name)), name]));
  return {
    // The workers use some names again and again, so they rarely delete these files.
    "files-deleted": {
      async run() {
        create(dir); // a removal before this one may have left none
        const fs = chooseFileSystem();
        const tokens = new TokenFile(fs, `${dir}/holdfast.tokens`, 0o600);
        let rounds = 0;
        for (const endMs = performance.now() + SCALE_MS; performance.now() < endMs; rounds++) {
          deleteUnused(fs, await someLockFiles(dir, Infinity), tokens, () => false);
          await pause(1);
        }
        return `${rounds} times all that were not held`;
      },
    },
    "file-removed": removal(dir, ({ pick }) => {
      const files = readdirSync(dir);
      const file = files.length > 0 ? pick(files) : "";
      if (file !== "") rmSync(`${dir}/${file}`, { force: true });
      const name = nameOf.get(file);
      return name === undefined ? { target: file } : { target: file, names: [name] };
    }),
    "files-removed": removal(dir, () => {
      const files = readdirSync(dir);
      for (const file of files) rmSync(`${dir}/${file}`, { force: true });
      return { target: `all ${files.length} files` };
    }),
    "directory-removed": removal(dir, ({ random }) => {
      // In one step: the workers create files in it all the time.
      renameSync(dir, `${dir}.old`);
      removeAll(`${dir}.old`);
      if (random() < 0.5) return { target: "the directory" }; // the first call creates it
      create(dir);
      return { target: "the directory, which was created again" };
    }),
  };
}

/** Removes a directory that has just been renamed. A call that had its path before may still create a file. */
function removeAll(dir: string): void {
  for (;;) {
    try {
      return rmSync(dir, { recursive: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
    }
  }
}

/** An administrator removes files without locking them, so their locks exclude nobody. */
function removal(dir: string, remove: (stage: Stage) => FaultOutcome): Fault {
  return {
    destructive: true,
    async run(stage) {
      create(dir); // a removal before this one may have left none
      const outcome = remove(stage);
      // Tokens restart from the wall clock of the process that creates the file again.
      const tokensMayRepeat = stage.fleet.clocks.length > 0;
      await pause(NOTICED_MS);
      return { ...outcome, tokensMayRepeat };
    },
  };
}
