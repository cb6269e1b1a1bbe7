import { badValue, date, describe, readTable, text } from "../core/contract/options.ts";
import { type Band, distanceMs, MAX_CALLS } from "./drawing/picture.ts";
import { type Incident, incidentPage } from "./incident_page.ts";
import { Overview } from "./overview.ts";
import { readRecording, type RecordedCall, type RecordingListener } from "./read_recording.ts";

/** The most files, and the most times that a process did not run. */
const MAX_FILES = 1_000;
const MAX_BANDS = 1_000;

/** Options of {@linkcode drawLocks}. */
export interface DrawLocksOptions {
  /**
   * Draws only calls that end after this time.
   *
   * @default the beginning of the recordings
   */
  from?: Date | undefined;
  /**
   * Draws only calls that begin before this time.
   *
   * @default the end of the recordings
   */
  to?: Date | undefined;
  /**
   * Draws only the lock of this name, as it was recorded.
   *
   * @default all locks
   */
  name?: string | undefined;
}

/**
 * Makes one HTML file of the recordings of {@linkcode recordLocks}: a lane for each process, with waits, leases,
 * losses and handoffs, and the same as a table. The file loads nothing, runs no script, and can be sent to others,
 * but shows the names and labels that are in the recordings.
 *
 * The page has at most 1,500 calls: of more, those around the end of the longest wait, and it says which time that
 * is; `from`, `to` and `name` choose others. Its charts are of all calls, and so are its sums if there are at most
 * 4,096 locks. Memory and the size of the page do not grow with the recordings.
 *
 * Times are those of the wall clocks of the processes, uncorrected: where fencing tokens contradict them, the page
 * says by how much they differ at least. The last line of a killed process may be cut: it is left out, and counted.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { drawLocks, recordLocks } from "@holdfast/lock/timeline";
 *
 * const file = `${Deno.makeTempDirSync()}/locks.jsonl`;
 * await using locks = new MemoryLock(); // or any other strategy
 * {
 *   await using _recording = recordLocks({ file });
 *   await Promise.all([locks.request("orders:42", () => {}), locks.request("orders:42", () => {})]);
 * }
 * const html = await drawLocks([file]); // write it into a file, and open that in a browser
 * ```
 *
 * @param files The recordings: one or more for each process.
 * @throws {TypeError|RangeError} If an argument is bad.
 * @throws {Error} If a file cannot be read, or is no recording.
 */
export async function drawLocks(
  files: readonly (string | URL)[],
  options: DrawLocksOptions = {},
): Promise<string> {
  const read = readTable("drawLocks()", options, { from: date(), to: date(), name: text() });
  const paths = checkFiles(files);
  const first = await gather(paths, read, null);
  const { overview, calls } = first;
  if (calls.length === overview.calls) return incidentPage(first);
  // Too many: read again, for those around the end of the longest wait.
  const { longestWait, fromMs, toMs } = overview;
  const centreMs = longestWait === null
    ? (fromMs + toMs) / 2
    : Math.min(longestWait.grantedMs, longestWait.endMs);
  return incidentPage(await gather(paths, read, centreMs));
}

function checkFiles(files: readonly (string | URL)[]): (string | URL)[] {
  if (!Array.isArray(files)) {
    throw new TypeError(badValue("the files", "an array of paths", describe(files)));
  }
  if (files.length === 0 || files.length > MAX_FILES) {
    throw new RangeError(badValue("the files", `1 to ${MAX_FILES} paths`, `${files.length}`));
  }
  for (const file of files) {
    if (typeof file === "string" || file instanceof URL) continue;
    throw new TypeError(badValue("a file", "a path or a URL", describe(file)));
  }
  return [...files];
}

/** Reads all files, and keeps the calls around an instant: of all, if they are few, without one. */
async function gather(
  files: readonly (string | URL)[],
  { from, to, name }: DrawLocksOptions,
  centreMs: number | null,
): Promise<Incident> {
  const overview = new Overview();
  const kept = nearest(centreMs);
  const processes = new Map<string, string>();
  const bands: Band[] = [];
  let missing = 0;
  const [fromMs, toMs] = [from?.getTime() ?? -Infinity, to?.getTime() ?? Infinity];
  const listener: RecordingListener = {
    onProcess: (lane, process) => void processes.set(lane, process),
    onCall(call) {
      if (call.endMs < fromMs || call.fromMs > toMs) return;
      if (name !== undefined && call.name !== name) return;
      overview.add(call);
      kept.add(call);
    },
    onBlocked(lane, fromMs, toMs) {
      const title = `did not run for ${Math.round(toMs - fromMs)} ms: stopped or blocked`;
      const band = { lanes: [lane], fromMs, toMs, className: "fault", title } as const;
      if (bands.length < MAX_BANDS) bands.push(band);
    },
    onMissing: (lines) => void (missing += lines),
  };
  for (const [index, file] of files.entries()) await readRecording(file, `${index}`, listener);
  const { calls, reachMs } = kept.end();
  const span = centreMs === null
    ? { fromMs: overview.fromMs, toMs: overview.toMs }
    : { fromMs: centreMs - reachMs, toMs: centreMs + reachMs };
  return {
    ...{ overview, processes, calls, bands, missing },
    fromMs: Math.max(span.fromMs, overview.fromMs, fromMs),
    toMs: Math.min(span.toMs, overview.toMs, toMs),
  };
}

/** Keeps the calls that are nearest to an instant; without one, the first. */
function nearest(centreMs: number | null) {
  let calls: RecordedCall[] = [];
  /** Calls that are nearer than this, in ms, are all kept. */
  let reachMs = Infinity;
  const cut = () => {
    if (centreMs === null || calls.length <= MAX_CALLS) return;
    const away = calls.map((call) => ({ call, ms: distanceMs(call, centreMs) }))
      .sort((a, b) => a.ms - b.ms);
    reachMs = away[MAX_CALLS]!.ms;
    calls = away.slice(0, MAX_CALLS).map(({ call }) => call);
  };
  return {
    add(call: RecordedCall): void {
      const isFull = calls.length >= (centreMs === null ? MAX_CALLS : 4 * MAX_CALLS);
      if (isFull && centreMs === null) return;
      if (isFull) cut();
      if (centreMs === null || distanceMs(call, centreMs) <= reachMs) calls.push(call);
    },
    end(): { calls: RecordedCall[]; reachMs: number } {
      cut();
      calls.sort((a, b) => a.fromMs - b.fromMs);
      if (reachMs > 0) return { calls, reachMs };
      // More wait at this instant than fit: the picture has some of them, and their whole time.
      const wholeMs = calls.reduce((most, { fromMs, endMs }) => {
        return Math.max(most, centreMs! - fromMs, endMs - centreMs!);
      }, 0);
      return { calls, reachMs: wholeMs };
    },
  };
}
