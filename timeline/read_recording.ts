import { createReadStream } from "node:fs";
import { type Line, readLine, VERSION } from "./lines.ts";

/** The longest line, in UTF-16 code units: a name has 1,000 of them at most, and JSON may escape each. */
const MAX_LINE = 65_536;

/**
 * A call and its lease, which is read until it ends. Times in ms since the epoch; `Infinity` for what did not happen.
 */
export interface RecordedCall {
  /** The key of its process. */
  readonly lane: string;
  readonly strategy: string;
  readonly name: string;
  readonly mode: string;
  readonly label: string | undefined;
  fromMs: number;
  grantedMs: number;
  endMs: number;
  /** By the monotonic clock of its process. */
  waitedMs: number;
  heldMs: number;
  readonly hasWaited: boolean;
  /** How it ended: `"released"`, `"lost: expired"`, `"busy"`, `"open"`, … */
  end: string;
  token: bigint | null;
  holderLabel: string | undefined;
  readonly marks: { readonly atMs: number; readonly kind: "lost" | "late" }[];
}

/** What is found in recordings. */
export interface RecordingListener {
  onProcess(lane: string, name: string): void;
  onCall(call: RecordedCall): void;
  /** A process did not run for a while: it was stopped, or its event loop was blocked. */
  onBlocked(lane: string, fromMs: number, toMs: number): void;
  /** Lines that are missing or cannot be read. */
  onMissing(lines: number): void;
}

/**
 * Reads a file line by line, and makes calls of its lines. It keeps only what is under way. `lane` is the key of the
 * file. Throws if it cannot be read, or is no recording of this version.
 */
export async function readRecording(
  file: string | URL,
  lane: string,
  listener: RecordingListener,
): Promise<void> {
  let reader: ProcessReader | null = null;
  let processes = 0;
  for await (const text of linesOf(file)) {
    const line = text === null ? null : readLine(text);
    if (line === null) listener.onMissing(1);
    else if (line.on === "dropped") listener.onMissing(line.count ?? 1);
    else if (line.on === "start") {
      if (line.v !== VERSION) {
        throw new Error(`Cannot draw ${file}: it was recorded by another version of this package`);
      }
      reader?.end();
      const key = `${lane}.${++processes}`;
      reader = new ProcessReader(key, line.wallMs ?? 0, listener);
      listener.onProcess(key, line.process ?? key);
    } else reader?.read(line);
  }
  if (reader === null) throw new Error(`Cannot draw ${file}: it is no recording of locks`);
  reader.end();
}

/** The lines of a file that are not empty; `null` for one that is too long. */
async function* linesOf(file: string | URL): AsyncGenerator<string | null> {
  let rest = "";
  let isTooLong = false;
  for await (const chunk of createReadStream(file, { encoding: "utf8" })) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.trim() !== "") yield isTooLong || line.length > MAX_LINE ? null : line;
      isTooLong = false;
    }
    if (rest.length > MAX_LINE) [rest, isTooLong] = [" ", true];
  }
  if (isTooLong) yield null;
  else if (rest.trim() !== "") yield rest;
}

/** The lines of one process. */
class ProcessReader {
  readonly #lane: string;
  readonly #listener: RecordingListener;
  readonly #waits = new Map<number, RecordedCall>();
  readonly #holds = new Map<number, RecordedCall>();
  /** What the wall clock is ahead of the times of lines. */
  #aheadMs: number;
  #lastMs: number;

  constructor(lane: string, wallMs: number, listener: RecordingListener) {
    this.#lane = lane;
    this.#listener = listener;
    this.#aheadMs = this.#lastMs = wallMs;
  }

  read(line: Line): void {
    const { on, at } = line;
    if (at === undefined) return;
    if (on === "clock" && line.wallMs !== undefined) this.#aheadMs = line.wallMs - at;
    const atMs = this.#lastMs = at + this.#aheadMs;
    if (on === "clock" && line.blockedMs !== undefined) {
      this.#listener.onBlocked(this.#lane, atMs - line.blockedMs, atMs);
    }
    const call = line.call === undefined ? undefined : this.#waits.get(line.call);
    const hold = line.hold === undefined ? undefined : this.#holds.get(line.hold);
    if (on === "wait" && line.call !== undefined) {
      this.#waits.set(line.call, this.#open(line, atMs));
    } else if (on === "blocked" && call !== undefined) call.holderLabel = line.holderLabel;
    else if (on === "grant") this.#grant(line, call ?? this.#open(line, atMs), atMs);
    else if (on === "end") this.#close(call ?? this.#open(line, atMs), atMs, line);
    else if (on === "renewal-late") hold?.marks.push({ atMs, kind: "late" });
    else if (on === "lost" || on === "release") {
      this.#close(hold ?? this.#heldBefore(line, atMs), atMs, line);
    }
    if (on === "grant" || on === "end") this.#waits.delete(line.call ?? 0);
    if (on === "lost" || on === "release") this.#holds.delete(line.hold ?? 0);
  }

  /** What is still under way goes on until the last line. */
  end(): void {
    for (const call of [...this.#waits.values(), ...this.#holds.values()]) {
      this.#close(call, this.#lastMs, undefined);
    }
  }

  #open(line: Line, atMs: number): RecordedCall {
    const { strategy = "", name = "", mode = "exclusive", label, waitedMs = 0 } = line;
    return {
      ...{ lane: this.#lane, strategy, name, mode, label, waitedMs, heldMs: 0 },
      ...{ fromMs: atMs - waitedMs, grantedMs: Infinity, endMs: Infinity, end: "open" },
      ...{ hasWaited: line.on === "wait", token: null, holderLabel: undefined, marks: [] },
    };
  }

  #grant({ hold, token, waitedMs }: Line, call: RecordedCall, atMs: number): void {
    if (waitedMs !== undefined) call.fromMs = atMs - (call.waitedMs = waitedMs);
    call.grantedMs = atMs;
    call.token = tokenOf(token);
    if (hold !== undefined) this.#holds.set(hold, call);
  }

  /** A lease that was granted before the recording began. */
  #heldBefore(line: Line, atMs: number): RecordedCall {
    const fromMs = atMs - (line.heldMs ?? 0);
    return { ...this.#open(line, fromMs), grantedMs: fromMs, token: tokenOf(line.token) };
  }

  #close(call: RecordedCall, atMs: number, line: Line | undefined): void {
    call.endMs = Math.max(atMs, call.fromMs);
    if (line?.on === "lost") {
      call.end = `lost: ${line.reason ?? "?"}`;
      call.marks.push({ atMs, kind: "lost" });
    } else if (line?.on === "release") {
      call.end = line.outcome === undefined ? "released" : `not released: ${line.outcome}`;
    } else if (line !== undefined) call.end = line.outcome ?? "?";
    if (call.grantedMs < Infinity) {
      call.heldMs = line?.heldMs ?? call.endMs - call.grantedMs;
      call.grantedMs = Math.max(call.fromMs, Math.min(call.endMs, call.endMs - call.heldMs));
    } else call.waitedMs = line?.waitedMs ?? call.endMs - call.fromMs;
    this.#listener.onCall(call);
  }
}

function tokenOf(text: string | undefined): bigint | null {
  return text !== undefined && /^\d{1,30}$/.test(text) ? BigInt(text) : null;
}
