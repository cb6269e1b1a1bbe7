/**
 * How long code computes, which other threads of a busy machine do not prolong.
 *
 * @module
 */
import { readFileSync } from "node:fs";

/** On Linux: the time on a processor in ns, the time of waiting for one, and the number of turns. */
const THREAD_TIMES = "/proc/thread-self/schedstat";

/** The CPU time of this thread in ms; on other systems than Linux the time of a clock. */
export function cpuTimeMs(): number {
  try {
    return Number(readFileSync(THREAD_TIMES, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return performance.now();
  }
}
