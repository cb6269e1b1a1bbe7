/**
 * Draws a run as an SVG picture: who held the lock when, who waited, the killed worker, and the fencing
 * tokens. The timeline in text is in `timeline.ts`.
 *
 * @module
 */
import { type DrawnCall, drawPicture } from "../../timeline/drawing/picture.ts";
import type { Run } from "./checks.ts";
import { type Hold, holdsOf, type Recovery, recoveryOf } from "./history.ts";

/** More holds would be too narrow to see. */
const MAX_HOLDS = 40;
const WIDTH = 840;
/** The name by which the calls have their colour. */
const LOCK = "the lock";

const LEGEND = [
  { className: "lease name0", height: 9, text: "holds the lock" },
  { className: "wait name0", height: 4, text: "waits for the lock" },
];
const KILLED = { className: "killed", height: 9, text: "was killed while it held the lock" };

/** The picture; `title` is written above it. It has a background of its own, light or dark. */
export function drawRun(run: Run, title: string): string {
  const holds = shownHolds(run);
  const fromMs = Math.min(...holds.map(({ fromMs }) => fromMs));
  const kill = recoveryOf(run.events, holds);
  const workers = Array.from({ length: run.workers }, (_, index) => nameOf(index + 1));
  const tokens = holds.map(({ token, fromMs }) => {
    return { atMs: fromMs, value: Number(token - holds[0]!.token) };
  });
  const picture = drawPicture({
    isFile: true,
    ...{ title, width: WIDTH, fromMs, zeroMs: fromMs },
    toMs: Math.max(fromMs, ...holds.map(({ fromMs, toMs }) => toMs ?? fromMs)),
    charts: [{ title: "fencing token", note: "minus the first", steps: tokens }],
    lanes: new Map(workers.map((worker) => [worker, worker])),
    calls: holds.map((hold) => callOf(hold, kill)),
    names: [LOCK],
    legend: kill === null ? LEGEND : [...LEGEND, KILLED],
  });
  return `${picture}\n`;
}

/** The holds that fit: those around the kill, else the first ones. */
export function shownHolds({ events }: Pick<Run, "events">): Hold[] {
  const holds = holdsOf(events);
  const kill = recoveryOf(events, holds);
  const killed = kill === null ? 0 : holds.filter(({ fromMs }) => fromMs < kill.atMs).length;
  const last = Math.max(0, holds.length - MAX_HOLDS);
  const first = Math.min(last, Math.max(0, killed - MAX_HOLDS / 2));
  return holds.slice(first, first + MAX_HOLDS);
}

function callOf(
  { worker, token, waitedMs, fromMs, toMs }: Hold,
  kill: Recovery | null,
): DrawnCall {
  const endMs = toMs ?? fromMs;
  const isKilled = kill?.worker === worker && fromMs < kill.atMs && endMs >= kill.atMs;
  return {
    ...{ lane: nameOf(worker), name: LOCK, fromMs: fromMs - waitedMs, grantedMs: fromMs, endMs },
    marks: isKilled ? [{ atMs: endMs, kind: "killed" }] : [],
    title: `token ${token}`,
  };
}

function nameOf(worker: number): string {
  return `worker ${worker}`;
}
