/**
 * How long code computes, which other threads of a busy machine do not prolong.
 *
 * @module
 */
import { readFileSync } from "node:fs";

/** The CPU time of this thread in ms; on other systems than Linux the time of a clock. */
export function cpuTimeMs(): number {
  return cpuTimeOf("thread-self");
}

/** The CPU time of the main thread of a process, likewise. */
export function processCpuTimeMs(pid: number): number {
  return cpuTimeOf(String(pid));
}

function cpuTimeOf(thread: string): number {
  try {
    // On Linux: the time on a processor in ns, the time of waiting for one, and the number of turns.
    return Number(readFileSync(`/proc/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return performance.now();
  }
}
