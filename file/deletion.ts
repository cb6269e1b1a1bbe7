import { dirname } from "node:path";
import { BACKGROUND_CLOCK, pause, settledWithin, SYSTEM_CLOCK } from "../core/time/clock.ts";
import { someLockFiles } from "./lock_directory.ts";
import { EMPTY_RECORD, type LockFile, observe, readRecord, type Record } from "./locked_file.ts";
import { closeUnlocked, hasExactId, isAt, openRegular } from "./regular_file.ts";
import type { FileSystem } from "./system/port.ts";
import type { TokenFile } from "./tokens.ts";

/** How long, in ms, a released file stays. A name that is used often is not created each time. */
const IDLE_MS = 1_000;
/** How many files are deleted in one step, which blocks the event loop for about 2 ms. */
const STEP_FILES = 32;
/** How often disposal tries while another process is writing the tokens. */
const CLOSING_TRIES = 20;
const STEP_EVERY_MS = 5;
/** How often, in ms, an instance in use looks for files that killed processes left. */
const SWEEP_EVERY_MS = 60_000;
const SWEEP_FILES = 1_024;
/** For how long, in ms, nobody has touched such a file. A live waiter would have locked it. */
const LEFT_MS = 10_000;

/**
 * Deletes the lock files of a `FileLock` that nobody uses: some time after their last release, at disposal, and when
 * a killed process has left them. Why that is safe is in
 * [ADR 24](../docs/adr/0024-files-who-may-write-and-deletion.md). Its timer does not keep the process alive.
 */
export class Cleaner {
  readonly #fs: FileSystem;
  /** When each file was released, in monotonic ms, by its path and in that order. */
  readonly #idle = new Map<string, number>();
  /** Files that killed processes may have left. */
  #left: string[] = [];
  /** Some of them that nobody had touched for long when they were looked at, which touches them. */
  #ready: readonly string[] = [];
  /** Those of the directory. There is nothing to delete before the first release. */
  #tokens: TokenFile | null = null;
  #sweepAtMs = -Infinity;
  #listing: Promise<void> = Promise.resolve();
  #cancelTimer: (() => void) | null = null;
  #isClosed = false;

  constructor(fs: FileSystem) {
    this.#fs = fs;
  }

  /** Deletes a file that was just released, if nobody uses it for a while. */
  release({ path, tokens }: LockFile): void {
    if (this.#isClosed) return;
    const nowMs = BACKGROUND_CLOCK.now();
    this.#tokens = tokens;
    this.#idle.delete(path);
    this.#idle.set(path, nowMs);
    if (nowMs >= this.#sweepAtMs) this.#sweep(dirname(path), nowMs);
    this.#wake(IDLE_MS);
  }

  /** Deletes the released files now, and some that killed processes left. Takes `timeoutMs` at most. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer?.();
    const untilMs = BACKGROUND_CLOCK.now() + timeoutMs;
    await settledWithin(SYSTEM_CLOCK, this.#listing, timeoutMs);
    this.#deleteLeft();
    for (let tries = 0; tries < CLOSING_TRIES && BACKGROUND_CLOCK.now() < untilMs;) {
      if (!this.#deleteIdle(Infinity)) tries++;
      if (this.#idle.size === 0) return;
      await pause(SYSTEM_CLOCK, 1);
    }
  }

  #wake(delayMs: number): void {
    if (this.#isClosed) return;
    this.#cancelTimer ??= BACKGROUND_CLOCK.schedule(() => this.#step(), delayMs);
  }

  #step(): void {
    this.#cancelTimer = null;
    const isDone = this.#deleteIdle(BACKGROUND_CLOCK.now() - IDLE_MS) && this.#deleteLeft();
    if (!isDone) return this.#wake(IDLE_MS);
    if (this.#left.length > 0) return this.#wake(STEP_EVERY_MS);
    const [nextMs] = this.#idle.values();
    if (nextMs === undefined) return;
    this.#wake(Math.max(STEP_EVERY_MS, nextMs + IDLE_MS - BACKGROUND_CLOCK.now()));
  }

  /** Deletes a step of the files released by `untilMs`; `false` if another process was writing the tokens. */
  #deleteIdle(untilMs: number): boolean {
    const files = [...this.#idle.entries().take(STEP_FILES)]
      .filter(([, releasedMs]) => releasedMs <= untilMs);
    for (const [path] of files) this.#idle.delete(path);
    // A file that a waiter has marked stays: the waiter will lock it soon.
    const rest = this.#delete(files.map(([path]) => path), ({ wanted }) => wanted);
    for (const [path, releasedMs] of files) {
      if (rest.includes(path)) this.#idle.set(path, releasedMs);
    }
    return rest.length === 0;
  }

  #sweep(dir: string, nowMs: number): void {
    this.#sweepAtMs = nowMs + SWEEP_EVERY_MS;
    this.#listing = someLockFiles(dir, SWEEP_FILES).then((paths) => {
      this.#left = paths;
      this.#wake(STEP_EVERY_MS);
    }, () => {}); // Without a list nothing is deleted; the next sweep tries again.
  }

  /** Deletes one step of the files that killed processes left. Returns as `#deleteIdle()` does. */
  #deleteLeft(): boolean {
    if (this.#ready.length === 0) {
      this.#ready = this.#left.splice(0, STEP_FILES).filter((path) => isLeft(this.#fs, path));
    }
    this.#ready = this.#delete(this.#ready, () => false);
    return this.#ready.length === 0;
  }

  #delete(paths: readonly string[], isSpared: (record: Record) => boolean): readonly string[] {
    return this.#tokens === null ? [] : deleteUnused(this.#fs, paths, this.#tokens, isSpared);
  }
}

/** Whether nobody has locked the file, or written to it for long. The wall clock may have been set back since. */
function isLeft(fs: FileSystem, path: string): boolean {
  try {
    const { mtime } = fs.lstat(path);
    if (Math.abs(Date.now() - Number(mtime)) < LEFT_MS) return false;
    // Clears the mark of a killed holder: others would believe it while the deletion has locked the file.
    return observe(fs, path) === "free";
  } catch {
    return false;
  }
}

/**
 * Deletes the files that nobody has locked. Locks each one for that: only the process that has locked the file which
 * the path names may delete it, and it deletes before it unlocks. A process that opened the file before finds the
 * path changed when it has locked it, and starts over. An error leaves a file as it is: deletion is never needed.
 * Returns the paths that were not looked at, because another process was writing the tokens.
 */
export function deleteUnused(
  fs: FileSystem,
  paths: readonly string[],
  tokens: TokenFile,
  isSpared: (record: Record) => boolean,
): readonly string[] {
  let floor = 0n; // no token of a deleted file is greater
  const raiseFloor = (token: bigint): boolean => {
    if (token <= floor) return true;
    // The wall clock is ahead of most tokens: so the floor is raised once for several files.
    const nowUs = fs.wallUs();
    const raised = tokens.raise(nowUs > token ? nowUs : token);
    floor = raised ?? floor;
    return raised !== null;
  };
  for (const [i, path] of paths.entries()) {
    try {
      if (!deleteOne(fs, path, isSpared, raiseFloor)) return paths.slice(i);
    } catch {
      // For instance the process has too many open files, or another user owns the file.
    }
  }
  return [];
}

/** Returns false if the floor could not be raised. */
function deleteOne(
  fs: FileSystem,
  path: string,
  isSpared: (record: Record) => boolean,
  raiseFloor: (token: bigint) => boolean,
): boolean {
  const file = openRegular(fs, path);
  if (file === null) return true;
  try {
    if (!file.tryLock(true)) return true;
    const info = file.stat();
    if (!isAt(fs, info, path) || !hasExactId(info)) return true;
    const record = readRecord(file);
    if (record === EMPTY_RECORD && info.size > 0) return true; // Perhaps it is not a lock file.
    if (isSpared(record)) return true;
    if (!raiseFloor(record.token)) return false;
    fs.unlink(path);
    return true;
  } finally {
    closeUnlocked(file);
  }
}
