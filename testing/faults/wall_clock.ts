/**
 * Wall clocks of processes that a test can set, with a preloaded library. (Debian's faketime cannot be
 * used: it deadlocks with the memory allocator of Debian's Redis.)
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { runCommand } from "../servers/command.ts";
import { LONG_BOUND_MS } from "../time.ts";

const SOURCE = new URL("./testdata/wall_clock.c", import.meta.url).pathname;

/** The wall clock of all processes that are started with `env`. */
export interface WallClock {
  readonly env: Readonly<Record<string, string>>;
  /** How many ms it is ahead of the system's clock. */
  readonly aheadMs: number;
  /** Sets it for all these processes at once. */
  set(aheadMs: number): void;
}

/** Makes a clock with its own setting. */
export type ClockMaker = (name: string) => WallClock;

/** Builds the library in a directory; null if this is not Linux or the build fails. */
export async function clockMaker(directory: string): Promise<ClockMaker | null> {
  if (process.platform !== "linux") return null;
  const library = `${directory}/wall_clock.so`;
  const build = ["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE];
  const { success } = await runCommand(build, LONG_BOUND_MS);
  return success ? (name) => newClock(library, `${directory}/${name}.clock`) : null;
}

function newClock(library: string, path: string): WallClock {
  writeFileSync(path, new Uint8Array(8));
  let aheadMs = 0;
  return {
    env: { LD_PRELOAD: library, HOLDFAST_WALL_CLOCK: path },
    get aheadMs() {
      return aheadMs;
    },
    set(ms) {
      aheadMs = ms;
      // Write in place, as the processes have mapped the file.
      const time = new Uint8Array(BigInt64Array.of(BigInt(Math.round(ms * 1e6))).buffer);
      writeFileSync(path, time, { flag: "r+" });
    },
  };
}
