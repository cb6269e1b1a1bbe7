/**
 * The place of `FileLock`: a directory of lock files and its faults.
 *
 * @module
 */
import { mkdirSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { deleteUnused } from "../../file/deletion.ts";
import { someLockFiles } from "../../file/directory.ts";
import { FileLock } from "../../file/mod.ts";
import { TokenFile } from "../../file/tokens.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import type { FaultTable, Place } from "./place.ts";

/** A file lease has no TTL. The nemesis uses this time scale instead. */
const SCALE_MS = 500;

/** Opens the place in its own directory. */
export function filePlace(directory: string, names: readonly string[]): Place {
  const dir = `${directory}/locks`;
  mkdirSync(dir, { mode: 0o700 }); // The first fault may come before the first lock.
  return {
    ...{ strategy: "file", fifo: false, ttlMs: SCALE_MS, skipped: {} },
    specFor: () => ({ strategy: "file", dir }),
    linksOf: () => [],
    faults: fileFaults(dir),
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

function fileFaults(dir: string): FaultTable {
  return {
    // The workers use all names again and again, so they rarely delete a file.
    "files-deleted": {
      async run() {
        const tokens = new TokenFile(`${dir}/holdfast.tokens`, 0o600);
        let rounds = 0;
        for (const endMs = performance.now() + SCALE_MS; performance.now() < endMs; rounds++) {
          deleteUnused(await someLockFiles(dir, Infinity), tokens, () => false);
          await pause(1);
        }
        return `${rounds} times all that were not held`;
      },
    },
    "file-removed": {
      destructive: true,
      async run({ pick, fleet }) {
        const files = readdirSync(dir);
        const file = files.length > 0 ? pick(files) : "";
        // Tokens restart from the wall clock of the process that creates the file again.
        const tokensMayRepeat = fleet.clocks.length > 0;
        if (file !== "") await rm(`${dir}/${file}`).catch(() => {});
        await pause(1_100); // The holder may notice only after this time.
        return { target: file, tokensMayRepeat };
      },
    },
  };
}
