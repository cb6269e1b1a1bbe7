/**
 * The port to the system's monotonic clock, which all processes of a machine share.
 *
 * @module
 */
import process from "node:process";

/** The C library of each system, and the number of its monotonic clock. */
const CLOCKS: Partial<Record<NodeJS.Platform, readonly [library: string, id: number]>> = {
  linux: ["libc.so.6", 1],
  darwin: ["libSystem.dylib", 6],
};

/** Returns a function that reads the clock in µs; null where the clock cannot be read. */
export function openMonotonicClock(): (() => number) | null {
  // In Deno, `process.hrtime()` starts at zero in each process.
  const [library, id] = CLOCKS[process.platform] ?? [];
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
