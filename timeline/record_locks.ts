import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { hostname } from "node:os";
import process from "node:process";
import { type AcquireEvent, CHANNELS, type HoldEvent } from "../core/contract/channels.ts";
import { LockError } from "../core/contract/errors.ts";
import {
  badValue,
  callback,
  describe,
  label,
  readTable,
  type Rule,
} from "../core/contract/options.ts";
import { BACKGROUND_CLOCK, type Cancel, SYSTEM_CLOCK } from "../core/time/clock.ts";
import { LineFile } from "./line_file.ts";
import { type Line, VERSION } from "./lines.ts";

/** How often in ms a process that holds or waits writes that it still runs. */
const BEAT_MS = 1_000;
/** A beat that is so much later, in ms, is recorded: the process did not run. */
const LATE_MS = 200;
/** The wall clock was set if it differs by so much, in ms. */
const STEP_MS = 20;

/** Options of {@linkcode recordLocks}. Give either `file` or `write`. */
export interface RecordLocksOptions {
  /**
   * The file to which lines are appended. Each process needs a file of its own: the lines of two cannot be told
   * apart. If it does not exist, it is made, readable for its owner only.
   *
   * @default none
   */
  file?: string | URL | undefined;
  /**
   * Gets each line, without its end. It is called within the calls of locks, so it must be quick. If it throws,
   * or returns a promise that rejects, the recording ends with a warning.
   *
   * @default none
   */
  write?: ((line: string) => void) | undefined;
  /**
   * The name of this process in the picture: 1 to 100 characters.
   *
   * @default the host name and the process id
   */
  process?: string | undefined;
  /**
   * Turns the name of a lock into the one that is recorded. Return different names for different locks, such as
   * hashes: of one strategy, locks with one name are drawn as one, even if they are on several servers. If it throws,
   * `"?"` is recorded.
   *
   * @default the name itself
   */
  rename?: ((name: string) => string) | undefined;
}

/**
 * Records the locks of this process, until it is disposed of: who waits, for how long and behind whom, what is
 * granted, released and lost. {@linkcode drawLocks} makes a picture of the recordings of several processes.
 *
 * **A recording shows the names of locks and the labels of holders**, unless `rename` hides the names. It has no
 * owner ids, no passwords and no messages of errors. A lock that nobody waits for is two lines of some 100 bytes;
 * a wait of over 100 ms costs a `query()`, for the label of the holder.
 *
 * Lines are written in the background. A process that exits writes the rest; one that is killed may lose those of
 * its last moment. If the disk is too slow, lines are left out and counted, and if it fails, the recording
 * ends with a warning. Neither delays a lock.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { recordLocks } from "@holdfast/lock/timeline";
 *
 * const lines: string[] = [];
 * await using _recording = recordLocks({ write: (line) => void lines.push(line) });
 * await using locks = new MemoryLock(); // or any other strategy
 * await locks.request("orders:42", () => {});
 * ```
 *
 * @returns Disposal ends the recording, and resolves when all is written.
 * @throws {TypeError} If an option has a wrong type or is unknown, or unless there is one of `file` and `write`.
 * @throws {Error} If the file cannot be opened.
 */
export function recordLocks(options: RecordLocksOptions): AsyncDisposable {
  const read = readTable("recordLocks()", options, {
    file: FILE,
    write: callback(),
    process: label(),
    rename: callback(),
  });
  if ((read.file === undefined) === (read.write === undefined)) {
    throw new TypeError("Cannot record locks: give either 'file' or 'write'");
  }
  return new Recording(read);
}

const FILE: Rule<undefined> = {
  default: undefined,
  check: (what, value) => {
    if (value instanceof URL || (typeof value === "string" && value !== "")) return;
    throw new TypeError(badValue(what, "the path of a file", describe(value)));
  },
};

class Recording implements AsyncDisposable {
  readonly #file: LineFile | null;
  readonly #write: (line: string) => void;
  readonly #rename: (name: string) => string;
  readonly #startMs = SYSTEM_CLOCK.now();
  /** What the wall clock is ahead of the monotonic one, as the last line said. */
  #aheadMs = preciseWallMs() - SYSTEM_CLOCK.now();
  readonly #waits = new Map<AcquireEvent, number>();
  readonly #holds = new Map<HoldEvent, number>();
  readonly #ends: (() => void)[] = [];
  #count = 0;
  #cancelBeat: Cancel | null = null;

  constructor(options: RecordLocksOptions) {
    const fail = (error: unknown) => this.#fail(error);
    this.#file = options.file === undefined ? null : new LineFile(options.file, fail);
    this.#write = options.write ?? ((line) => this.#file!.write(line));
    this.#rename = options.rename ?? ((name) => name);
    const own = options.process ?? `${hostname()} ${process.pid}`;
    const wallMs = this.#startMs + this.#aheadMs;
    this.#put({ on: "start", v: VERSION, process: own, wallMs, at: 0 });
    const ended = tracingChannel(CHANNELS.acquire).asyncEnd.name;
    this.#subscribe(CHANNELS.wait, (event: AcquireEvent) => this.#onWait(event));
    this.#subscribe(CHANNELS.blocked, (event: AcquireEvent) => this.#onBlocked(event));
    this.#subscribe(ended, (event: AcquireEvent) => this.#onEnd(event));
    this.#subscribe(CHANNELS.grant, (event: HoldEvent) => this.#onGrant(event));
    this.#subscribe(CHANNELS.renewalLate, (event: HoldEvent) => {
      const { remainingMs } = event;
      this.#tell({ on: "renewal-late", ...this.#holdOf(event), remainingMs });
    });
    this.#subscribe(CHANNELS.lost, (event: HoldEvent) => {
      this.#onHoldEnd({ on: "lost", reason: event.reason }, event);
    });
    this.#subscribe(CHANNELS.release, (event: HoldEvent) => {
      const outcome = event.error === undefined ? undefined : outcomeOf(event.error);
      this.#onHoldEnd({ on: "release", outcome }, event);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ends.length > 0) this.#tell({ on: "stop" });
    this.#unsubscribe();
    await this.#file?.end();
  }

  #subscribe<Event>(name: string | symbol, onEvent: (event: Event) => void): void {
    const listener = (event: unknown) => onEvent(event as Event);
    subscribe(name, listener);
    this.#ends.push(() => void unsubscribe(name, listener));
  }

  #unsubscribe(): void {
    for (const end of this.#ends.splice(0)) end();
    this.#cancelBeat?.();
    this.#cancelBeat = null;
  }

  #fail(error: unknown): void {
    if (this.#ends.length === 0) return;
    this.#unsubscribe();
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(`Cannot record locks, the recording has ended: ${why}`);
  }

  #onWait(event: AcquireEvent): void {
    this.#waits.set(event, ++this.#count);
    const { waitedMs, position, waiters } = event;
    const own = { call: this.#count, ...this.#describe(event) };
    this.#tell({ on: "wait", ...own, waitedMs, position, waiters });
  }

  #onBlocked(event: AcquireEvent): void {
    const call = this.#waits.get(event);
    if (call === undefined) return;
    const { holderLabel, holderCount } = event;
    this.#tell({ on: "blocked", call, holderLabel, holderCount });
  }

  /** A call that was granted the lock has its line already. */
  #onEnd(event: AcquireEvent): void {
    const call = this.#waits.get(event);
    this.#waits.delete(event);
    if (event.result === "granted") return;
    const outcome = event.result ?? outcomeOf(event.error);
    const { waitedMs } = event;
    this.#tell({ on: "end", ...this.#describe(event), waitedMs, outcome, call });
  }

  #onGrant(event: HoldEvent): void {
    this.#holds.set(event, ++this.#count);
    const { call, fencingToken } = event;
    this.#tell({
      ...{ on: "grant", hold: this.#count, ...this.#describe(event), token: `${fencingToken}` },
      ...{ waitedMs: call?.waitedMs, call: call && this.#waits.get(call) },
    });
  }

  #onHoldEnd(line: Line, event: HoldEvent): void {
    this.#tell({ ...line, ...this.#holdOf(event), heldMs: event.heldMs });
    this.#holds.delete(event);
  }

  /** The number of a lease; of one that was granted before the recording, what it is. */
  #holdOf(event: HoldEvent): Partial<Line> {
    const hold = this.#holds.get(event);
    if (hold !== undefined) return { hold };
    return { ...this.#describe(event), token: `${event.fencingToken}` };
  }

  #describe({ strategy, name, mode, label }: AcquireEvent | HoldEvent): Partial<Line> {
    let shown = "?";
    try {
      shown = `${this.#rename(name)}`;
    } catch {
      // The name stays hidden.
    }
    return { strategy, name: shown, mode: mode === "exclusive" ? undefined : mode, label };
  }

  /** Writes a line, with its time. */
  #tell(line: Line): void {
    const nowMs = SYSTEM_CLOCK.now();
    const wallMs = preciseWallMs();
    if (Math.abs(wallMs - nowMs - this.#aheadMs) > STEP_MS) this.#tellClock(nowMs, wallMs);
    this.#put({ ...line, at: nowMs - this.#startMs });
    this.#beat();
  }

  #tellClock(nowMs: number, wallMs: number, blockedMs?: number): void {
    this.#aheadMs = wallMs - nowMs;
    this.#put({ on: "clock", at: nowMs - this.#startMs, wallMs, blockedMs });
  }

  /** While something is held or waited for, the recording shows until when the process ran. */
  #beat(): void {
    if (this.#cancelBeat !== null || this.#waits.size + this.#holds.size === 0) return;
    const dueMs = SYSTEM_CLOCK.now() + BEAT_MS;
    this.#cancelBeat = BACKGROUND_CLOCK.schedule(() => {
      this.#cancelBeat = null;
      if (this.#waits.size + this.#holds.size === 0) return;
      const nowMs = SYSTEM_CLOCK.now();
      const lateMs = nowMs - dueMs;
      this.#tellClock(nowMs, preciseWallMs(), lateMs > LATE_MS ? lateMs : undefined);
      this.#beat();
    }, BEAT_MS);
  }

  #put(line: Line): void {
    try {
      const text = JSON.stringify(line, (_, value) => {
        return typeof value === "number" ? brief(value) : value;
      });
      const done: unknown = this.#write(text);
      if (done instanceof Promise) done.catch((error) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
  }
}

/** To a microsecond. */
function brief(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}

/** Wall time with a fraction, unless the wall clock was set since the start of the process. */
function preciseWallMs(): number {
  const wallMs = SYSTEM_CLOCK.wall();
  const preciseMs = performance.timeOrigin + SYSTEM_CLOCK.now();
  return Math.abs(preciseMs - wallMs) < 2 ? preciseMs : wallMs;
}

/** Not the message, which has the name of the lock. */
function outcomeOf(error: unknown): string {
  if (error instanceof LockError) return error.code;
  return error instanceof Error ? error.name : "error";
}
