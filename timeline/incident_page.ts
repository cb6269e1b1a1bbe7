import { page } from "./drawing/page.ts";
import { type Band, type DrawnCall, drawPicture } from "./drawing/picture.ts";
import { escape } from "./drawing/svg.ts";
import { durationText, MAX_LOCKS, type Overview } from "./overview.ts";
import type { RecordedCall } from "./read_recording.ts";

/** The calls that a page shows, and what is known of all. */
export interface Incident {
  readonly overview: Overview;
  /** The names of the processes, by their keys. */
  readonly processes: ReadonlyMap<string, string>;
  /** The calls in the picture, in the order of their beginnings. */
  readonly calls: readonly RecordedCall[];
  /** The time in which the picture has all calls. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly bands: readonly Band[];
  /** How many lines are missing or could not be read. */
  readonly missing: number;
}

/** How many waits are told in words, and how many locks are in the table. */
const WORST = 5;
const LOCKS = 20;
/** Clocks that differ by less, in ms, are not worth a word. */
const CLOCKS_MS = 5;

const LEGEND = [
  { className: "wait name0", height: 4, text: "waits (a colour per lock)" },
  { className: "lease name0", height: 9, text: "holds the lock" },
  { className: "lost", height: 12, text: "lost" },
  { className: "late", height: 12, text: "renewed late" },
  { className: "fault", height: 12, text: "did not run" },
];

/** The page of an incident: the longest waits in words, the pictures, the locks and the calls in tables. */
export function incidentPage(incident: Incident): string {
  const { overview, calls, fromMs, toMs } = incident;
  if (overview.calls === 0) {
    return page("Locks", ["<h1>No call of a lock was recorded</h1>", ...notes(incident, [])]);
  }
  const began = new Date(overview.fromMs).toISOString();
  const title = `Locks from ${began}, ${durationText(overview.toMs - overview.fromMs)}`;
  const ofLocks = [...Map.groupBy(calls, lockOf).values()];
  const behind = new Map(ofLocks.flatMap(behindOf));
  const drawn = new Map(calls.map((call, index): [RecordedCall, DrawnCall] => {
    return [call, drawnOf(call, behind.get(call), incident, String(index + 1))];
  }));
  const handoffs = ofLocks.flatMap((ofLock) => handoffsOf(ofLock, drawn));
  const charts = overview.charts();
  const whole = { title, fromMs: overview.fromMs, toMs: overview.toMs, zeroMs: overview.fromMs };
  const isCut = calls.length < overview.calls;
  const detail = {
    ...{ title: `Calls of locks from ${began}`, fromMs, toMs, zeroMs: overview.fromMs },
    ...{ lanes: lanesOf(incident), calls: [...drawn.values()], handoffs },
    ...{ bands: incident.bands, names: namesOf(calls), legend: LEGEND },
  };
  return page(title, [
    `<h1>${escape(title)}</h1>`,
    `<p><a href="#calls">To the table of the calls</a></p>`,
    ...notes(incident, ofLocks),
    "<h2>The longest waits</h2>",
    worst(drawn, behind, incident),
    ...isCut ? ["<h2>All calls</h2>", drawPicture({ ...whole, lanes: new Map(), charts })] : [],
    `<h2>${isCut ? "Around the end of the longest wait" : "All calls"}</h2>`,
    drawPicture({ ...detail, ...isCut ? {} : { charts } }),
    "<h2>Locks</h2>",
    locksTable(incident),
    "<h2>Calls</h2>",
    callsTable(drawn, behind, incident),
  ]);
}

/** What a reader must know before believing the picture. */
function notes(incident: Incident, ofLocks: readonly RecordedCall[][]): string[] {
  const { overview, calls, missing, processes, fromMs, toMs } = incident;
  const said = [
    `Recorded processes: ${processes.size}; calls: ${overview.calls}. Times are those of the wall ` +
    "clocks of the processes, which nothing corrects.",
  ];
  if (calls.length < overview.calls) {
    const since = (ms: number) => durationText(ms - overview.fromMs);
    said.push(
      `The picture and the table have ${calls.length} of them: those from ${since(fromMs)} to ` +
        `${since(toMs)} after the start. The charts are of all.`,
    );
  }
  if (missing > 0) said.push(`Lines that are missing or cannot be read: ${missing}.`);
  const open = calls.filter(({ end }) => end === "open").length;
  if (open > 0) {
    said.push(
      `Calls without an end: ${open}. The file was read while they went on, the recording was ended, ` +
        "the process was killed, or lines are missing.",
    );
  }
  const clocks = clocksDiffer(ofLocks);
  if (clocks !== null) {
    const [a, b] = clocks.between.map((lane) => processes.get(lane)!);
    said.push(
      `The clocks of ${a} and ${b} differ by ${durationText(clocks.ms)} at least: their ` +
        "fencing tokens are in the other order than their times.",
    );
  }
  return [`<ul>${said.map((text) => `<li>${escape(text)}</li>`).join("")}</ul>`];
}

function lockOf({ strategy, name, lane }: RecordedCall): string {
  // A lock in memory is of one process.
  return JSON.stringify([strategy, name, strategy === "memory" || strategy === "fake" ? lane : ""]);
}

/** The lease that each waiting call of one lock waited behind for the longest time. */
function behindOf(calls: readonly RecordedCall[]): [RecordedCall, RecordedCall][] {
  const holds = calls.filter(({ grantedMs }) => grantedMs < Infinity);
  return calls.filter(({ hasWaited }) => hasWaited).flatMap((call) => {
    const untilMs = Math.min(call.grantedMs, call.endMs);
    let [longestMs, behind] = [0, null as RecordedCall | null];
    for (const hold of holds) {
      const ms = Math.min(hold.endMs, untilMs) - Math.max(hold.grantedMs, call.fromMs);
      if (hold !== call && ms > longestMs) [longestMs, behind] = [ms, hold];
    }
    return behind === null ? [] : [[call, behind] as [RecordedCall, RecordedCall]];
  });
}

/** The leases of one lock, in the order of their tokens: no clock can mix them up. */
function inOrder(calls: readonly RecordedCall[]): (RecordedCall & { readonly token: bigint })[] {
  return calls.filter((call): call is RecordedCall & { token: bigint } => call.token !== null)
    .sort((a, b) => a.token < b.token ? -1 : 1);
}

/** Shared leases may have one token, and more than one of them ends before an exclusive one begins. */
function isExclusive({ mode }: RecordedCall): boolean {
  return mode === "exclusive";
}

/** Each release, and the waiter that got the lock then. */
function handoffsOf(
  calls: readonly RecordedCall[],
  drawn: ReadonlyMap<RecordedCall, DrawnCall>,
) {
  return inOrder(calls).flatMap((to, index, ordered) => {
    const from = ordered[index - 1];
    if (from === undefined || !to.hasWaited || from.end === "open") return [];
    if (!isExclusive(from) || !isExclusive(to)) return [];
    return from.endMs < to.fromMs ? [] : [{ from: drawn.get(from)!, to: drawn.get(to)! }];
  });
}

/** The greatest contradiction between the order of the tokens and that of the clocks. */
function clocksDiffer(ofLocks: readonly (readonly RecordedCall[])[]) {
  let found = null as { ms: number; between: [string, string] } | null;
  for (const calls of ofLocks) {
    inOrder(calls.filter(isExclusive)).forEach((next, index, ordered) => {
      const before = ordered[index - 1];
      if (before === undefined || before.lane === next.lane) return;
      const ms = before.grantedMs - next.grantedMs;
      if (ms > Math.max(CLOCKS_MS, found?.ms ?? 0)) {
        found = { ms, between: [before.lane, next.lane] };
      }
    });
  }
  return found;
}

/** The processes with calls in the picture; one name may be of several. */
function lanesOf({ processes, calls }: Incident): Map<string, string> {
  const used = new Set(calls.map(({ lane }) => lane));
  return new Map(
    [...processes].filter(([lane]) => used.has(lane))
      .sort(([, a], [, b]) => a.localeCompare(b, "en", { numeric: true })),
  );
}

/** The names of the locks, those with the longest waits first. */
function namesOf(calls: readonly RecordedCall[]): string[] {
  const waits = calls.toSorted((a, b) => b.waitedMs - a.waitedMs);
  return [...new Set(waits.map(({ name }) => name))];
}

function drawnOf(
  call: RecordedCall,
  behind: RecordedCall | undefined,
  incident: Incident,
  target: string,
): DrawnCall {
  const { lane, name, fromMs, grantedMs, endMs, marks } = call;
  const { overview } = incident;
  const title = [
    `${who(call, incident)}: ${name}`,
    `from ${durationText(fromMs - overview.fromMs)} after the start`,
    `waited ${durationText(call.waitedMs)}${behindText(call, behind, incident)}`,
    ...grantedMs < Infinity ? [`held ${durationText(call.heldMs)}`] : [],
    `${call.end}${call.token === null ? "" : `, token ${call.token}`}`,
  ].join("\n");
  return { lane, name, fromMs, grantedMs, endMs, marks, title, target };
}

/** A process, and the label of its call if that says more. */
function who({ lane, label }: RecordedCall, { processes }: Incident): string {
  const name = processes.get(lane)!;
  return label === undefined || name.includes(label) ? name : `${name} (${label})`;
}

/** Who was ahead: as the recordings show it, or else as the service said. */
function behindText(
  { holderLabel }: RecordedCall,
  behind: RecordedCall | undefined,
  incident: Incident,
): string {
  if (behind === undefined) {
    return holderLabel === undefined ? "" : `, behind a holder with the label ${holderLabel}`;
  }
  return `, most of it behind ${who(behind, incident)}, which held it for ` +
    durationText(behind.heldMs);
}

function worst(
  drawn: ReadonlyMap<RecordedCall, DrawnCall>,
  behind: ReadonlyMap<RecordedCall, RecordedCall>,
  incident: Incident,
): string {
  const waits = [...drawn.keys()].filter(({ hasWaited }) => hasWaited)
    .sort((a, b) => b.waitedMs - a.waitedMs).slice(0, WORST);
  if (waits.length === 0) return "<p>No call has waited.</p>";
  const items = waits.map((call) => {
    const { name, waitedMs } = call;
    const text = `${who(call, incident)} waited ${durationText(waitedMs)} for ${name}` +
      behindText(call, behind.get(call), incident);
    return `<li><a href="#r${drawn.get(call)!.target}">${escape(text)}</a></li>`;
  });
  return `<ol>${items.join("")}</ol>`;
}

function locksTable({ overview }: Incident): string {
  const locks = overview.locks();
  const rows = locks.slice(0, LOCKS).map((sums) => [
    ...[sums.name, sums.strategy, sums.calls, sums.granted, sums.lost],
    ...[durationText(sums.longestWaitMs), durationText(sums.waitedMs)],
    ...[durationText(sums.longestHoldMs), durationText(sums.heldMs)],
  ]);
  const others = locks.length - rows.length;
  const caption = overview.isSumPartial
    ? `Sums by lock; of more than ${MAX_LOCKS} locks, those with short waits are left out or incomplete`
    : others === 0
    ? "Sums of all calls"
    : `Sums of all calls; ${others} more locks`;
  const head = ["lock", "strategy", "calls", "granted", "lost", "longest wait", "all waits"];
  return table(caption, [...head, "longest hold", "all holds"], rows.map((cells) => ({ cells })));
}

function callsTable(
  drawn: ReadonlyMap<RecordedCall, DrawnCall>,
  behind: ReadonlyMap<RecordedCall, RecordedCall>,
  { overview, processes }: Incident,
): string {
  const rows = Array.from(drawn, ([call, { target }]) => {
    const other = behind.get(call);
    const cells = [
      ...[target!, processes.get(call.lane)!, call.label ?? "", call.name],
      ...[((call.fromMs - overview.fromMs) / 1e3).toFixed(3), durationText(call.waitedMs)],
      call.grantedMs < Infinity ? durationText(call.heldMs) : "",
      ...[call.end, call.token === null ? "" : `${call.token}`],
      other === undefined ? call.holderLabel ?? "" : other.label ?? processes.get(other.lane)!,
    ];
    return { target, cells };
  });
  const head = ["call", "process", "label", "lock", "from, in s", "waited", "held", "end"];
  const caption = "The calls of the picture, in the order of their beginnings";
  const body = table(caption, [...head, "token", "behind"], rows);
  return `<div id="calls">${body}</div>`;
}

function table(
  caption: string,
  head: readonly string[],
  rows: readonly {
    readonly target?: string | undefined;
    readonly cells: readonly (string | number)[];
  }[],
): string {
  const body = rows.map(({ target, cells }) => {
    const inner = cells.map((cell, index) => {
      const text = escape(String(cell));
      const isLink = index === 0 && target !== undefined;
      return `<td>${isLink ? `<a href="#c${target}">${text}</a>` : text}</td>`;
    });
    return `<tr${target === undefined ? "" : ` id="r${target}"`}>${inner.join("")}</tr>`;
  });
  const columns = head.map((name) => `<th scope="col">${escape(name)}</th>`).join("");
  return `<table><caption>${escape(caption)}</caption><thead><tr>${columns}</tr></thead>` +
    `<tbody>${body.join("\n")}</tbody></table>`;
}
