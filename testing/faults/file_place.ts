/**
 * A directory of lock files, and how it goes wrong.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { FileLock } from "../../file/mod.ts";
import { pause, waitUntil } from "../servers/wait.ts";
import type { FaultTable, Place } from "./place.ts";

/** A lease has no TTL; this is the scale of the nemesis. */
const SCALE_MS = 500;

/** Opens the place in a directory of its own. */
export function filePlace(directory: string, names: readonly string[]): Place {
  const dir = `${directory}/locks`;
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
    "file-removed": {
      destructive: true,
      async run({ pick, fleet }) {
        const files = readdirSync(dir);
        const file = files.length > 0 ? pick(files) : "";
        // Tokens begin anew, by the clock of whoever makes the file again.
        const tokensMayRepeat = fleet.clocks.length > 0;
        if (file !== "") await rm(`${dir}/${file}`).catch(() => {});
        await pause(1_100); // For so long its holder may not know.
        return { target: file, tokensMayRepeat };
      },
    },
  };
}
