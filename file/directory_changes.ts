import { basename, dirname } from "node:path";
import { unwatchAbort, watchAbort } from "../core/time/abort_watch.ts";
import { BACKGROUND_CLOCK, type Cancel, pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
import type { NotLocked } from "./locked_file.ts";
import type { DirectoryListener, FileSystem } from "./system/port.ts";

/** The pauses in ms, at first and at last, between looks besides a watch: it may have missed a change. */
const BACKSTOP_MS = [1_000, 5_000] as const;
/** The longest pause in ms between two polls, if the first one is not longer. */
const POLL_AT_MOST_MS = 1_000;
/** A pause, as a part of the time for which nobody has written to the file. */
const PAUSE_PART = 1 / 4;
/** How long, in ms, others go first at most. They are notified within about 2 ms. */
const YIELD_MS = 10;
/** How often, in ms, the watch is checked. */
const CHECK_MS = 1_000;
/** The pause in ms before a replaced directory is watched. In the same turn, Deno's watch reports nothing. */
const RESTART_MS = 20;
/** How long, in ms, an unused watch stays: to start it takes as long as a handoff. */
const LINGER_MS = 1_000;
/** How long, in ms, after a watch was refused or given up another one is tried. */
const RETRY_MS = 10_000;

/** One waiter of a lock file, which sleeps until the file has changed. Its timer keeps the process alive. */
export class Waiter {
  readonly path: string;
  /** When the wait began, in monotonic ms. */
  readonly sinceMs: number = SYSTEM_CLOCK.now();
  /** Since the last sleep. True at first: the file may have changed before it was watched. */
  #hasChanged = true;
  #end: (() => void) | null = null;

  constructor(path: string) {
    this.path = path;
  }

  /** Ends the current sleep, or else the next one at its start. */
  wake(): void {
    this.#hasChanged = true;
    this.#end?.();
  }

  /** Sleeps `timeoutMs` at most, or until the signal aborts. */
  async sleep(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#hasChanged && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const end = this.#end = () => resolve();
      const cancel = SYSTEM_CLOCK.schedule(end, timeoutMs);
      const listener = { onAborted: end };
      watchAbort(signal, listener);
      await promise;
      cancel();
      unwatchAbort(signal, listener);
    }
    this.#hasChanged = false;
  }
}

/** Wakes the waiters of a `FileLock`, which share a watch, when their lock files may be free. */
export class DirectoryChanges implements DirectoryListener {
  readonly #fs: Pick<FileSystem, "watch" | "stat">;
  readonly #pollIntervalMs: number;
  /** By file name. */
  readonly #waiters = new Map<string, Waiter>();
  /** Ends the watch; `null` if there is none. */
  #endWatch: (() => void) | null = null;
  #watchedId = "";
  /** Set when a watch begins. */
  #checkAtMs = Infinity;
  #retryAtMs = -Infinity;
  #cancelLinger: Cancel | null = null;

  constructor(fs: Pick<FileSystem, "watch" | "stat">, pollIntervalMs: number) {
    this.#fs = fs;
    this.#pollIntervalMs = pollIntervalMs;
  }

  /** Whether the directory is watched: there are waiters, or there were some lately. */
  get isWatched(): boolean {
    return this.#endWatch !== null;
  }

  /** Adds the waiter of a file. A file has one at most. */
  enter(path: string): Waiter {
    const waiter = new Waiter(path);
    this.#waiters.set(basename(path), waiter);
    return waiter;
  }

  leave({ path }: Waiter): void {
    this.#waiters.delete(basename(path));
    if (this.#waiters.size > 0 || this.#endWatch === null) return;
    this.#cancelLinger ??= BACKGROUND_CLOCK.schedule(() => {
      this.#cancelLinger = null;
      if (this.#waiters.size === 0) this.close();
    }, LINGER_MS);
  }

  /**
   * Waits until it is time to try again. The first call of a waiter returns at once, unless it yields. `isForeign`:
   * so many looks have found the file locked without a mark that another program has locked it.
   */
  async next(
    waiter: Waiter,
    seen: NotLocked,
    signal: AbortSignal,
    isForeign = false,
  ): Promise<void> {
    const dir = dirname(waiter.path);
    if (this.#endReplaced(dir)) await pause(SYSTEM_CLOCK, RESTART_MS, signal);
    if (signal.aborted) return;
    this.#startWatch(dir);
    const delayMs = this.#delayMs(waiter, seen);
    // Changes do not end this pause: the last release of this instance itself is one, and so is each try beside a
    // shared lock of another program.
    if (seen === "yield" || isForeign) await pause(SYSTEM_CLOCK, delayMs, signal);
    else await waiter.sleep(delayMs, signal);
  }

  close(): void {
    this.#cancelLinger?.();
    this.#cancelLinger = null;
    this.#endWatch?.();
    this.#endWatch = null;
  }

  onChange(fileName: string): void {
    this.#waiters.get(fileName)?.wake();
  }

  onAnyChange(): void {
    for (const waiter of this.#waiters.values()) waiter.wake();
  }

  onEnd(): void {
    this.#endWatch = null;
    this.#retryAtMs = BACKGROUND_CLOCK.now() + RETRY_MS;
    this.onAnyChange();
  }

  #startWatch(dir: string): void {
    const nowMs = BACKGROUND_CLOCK.now();
    if (this.#endWatch !== null || nowMs < this.#retryAtMs) return;
    this.#watchedId = directoryId(this.#fs, dir);
    this.#checkAtMs = nowMs + CHECK_MS;
    this.#endWatch = this.#fs.watch(dir, this);
    if (this.#endWatch === null) this.#retryAtMs = nowMs + RETRY_MS;
    // Files may have changed since the last look.
    else this.onAnyChange();
  }

  /** Ends the watch if another directory is at the path, or none. Returns whether it did. */
  #endReplaced(dir: string): boolean {
    const nowMs = BACKGROUND_CLOCK.now();
    if (this.#endWatch === null || nowMs < this.#checkAtMs) return false;
    this.#checkAtMs = nowMs + CHECK_MS;
    if (directoryId(this.#fs, dir) === this.#watchedId) return false;
    this.close();
    this.#retryAtMs = nowMs + RESTART_MS / 2;
    return true;
  }

  #delayMs(waiter: Waiter, seen: NotLocked): number {
    const pollMs = this.#pollIntervalMs;
    if (seen === "yield") return this.#endWatch === null ? pollMs : Math.min(pollMs, YIELD_MS);
    if (this.#endWatch === null) return this.#pauseMs(waiter, pollMs, POLL_AT_MOST_MS);
    if (seen === "held") return this.#pauseMs(waiter, ...BACKSTOP_MS);
    // Another program may have the file open for reading only. Its end is not reported.
    return this.#pauseMs(waiter, Math.min(pollMs, POLL_AT_MOST_MS), POLL_AT_MOST_MS);
  }

  /**
   * The pause before the next look. It grows while nobody writes to the file: a hundred processes may wait
   * for it, and together look a hundred times a second at most. Chance keeps two of them out of step.
   */
  #pauseMs({ path, sinceMs }: Waiter, leastMs: number, mostMs: number): number {
    const waitedMs = SYSTEM_CLOCK.now() - sinceMs;
    const unchangedMs = Math.min(waitedMs, SYSTEM_CLOCK.wall() - changedMs(this.#fs, path));
    const pauseMs = Math.max(leastMs, Math.min(unchangedMs * PAUSE_PART, mostMs));
    return pauseMs * (1 + Math.random() / 2);
  }
}

/** `""` if there is none. Not every runtime reports that a watched directory was removed or renamed. */
function directoryId(fs: Pick<FileSystem, "stat">, path: string): string {
  try {
    const { dev, ino, birthtime } = fs.stat(path);
    return `${dev} ${ino} ${birthtime?.getTime()}`; // The next directory may get the same number.
  } catch {
    return "";
  }
}

/** When somebody wrote to a file, in ms since the epoch; 0 if that is unknown. */
function changedMs(fs: Pick<FileSystem, "stat">, path: string): number {
  try {
    return Number(fs.stat(path).mtime);
  } catch {
    return 0;
  }
}
