/**
 * Wall clocks of processes that can be set, by a library that is loaded before all others. (Debian's
 * faketime cannot be used: it and the memory allocator of Debian's Redis wait for each other.)
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { runCommand } from "../servers/command.ts";

const BUILD_BOUND_MS = 60_000;
const SOURCE = new URL("./testdata/wall_clock.c", import.meta.url).pathname;

/** The wall clock of the processes that are started with `env`. */
export interface WallClock {
  readonly env: Readonly<Record<string, string>>;
  /** By how much in ms it is ahead. */
  readonly aheadMs: number;
  /** Sets it, at once and for all of them. */
  set(aheadMs: number): void;
}

/** Makes clocks; null where the library cannot be built. */
export type ClockMaker = (name: string) => WallClock;

/** Builds the library in a directory. */
export async function clockMaker(directory: string): Promise<ClockMaker | null> {
  if (process.platform !== "linux") return null;
  const library = `${directory}/wall_clock.so`;
  const build = ["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE];
  const { success } = await runCommand(build, BUILD_BOUND_MS);
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
      // In place: the processes have mapped the file.
      const time = new Uint8Array(BigInt64Array.of(BigInt(Math.round(ms * 1e6))).buffer);
      writeFileSync(path, time, { flag: "r+" });
    },
  };
}
