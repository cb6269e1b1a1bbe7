/**
 * A clock that all processes of a machine share.
 *
 * @module
 */

/** Where the system keeps its clocks, and the number of the one that is never set. */
const CLOCKS: Partial<Record<typeof Deno.build.os, readonly [library: string, id: number]>> = {
  linux: ["libc.so.6", 1],
  darwin: ["libSystem.dylib", 6],
};

/** Time in µs by CLOCK_MONOTONIC; by the wall clock where that cannot be had. */
export const nowUs: () => number = openClock() ?? wallUs;

function openClock(): (() => number) | null {
  const [library, id] = CLOCKS[Deno.build.os] ?? [];
  if (library === undefined || id === undefined) return null;
  try {
    const { symbols } = Deno.dlopen(library, {
      clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
    });
    const time = new BigInt64Array(2);
    return () => {
      symbols.clock_gettime(id, time);
      return Number(time[0]! * 1_000_000n + time[1]! / 1_000n);
    };
  } catch {
    return null; // A system with another C library.
  }
}

function wallUs(): number {
  return Number(Temporal.Now.instant().epochNanoseconds / 1_000n);
}
