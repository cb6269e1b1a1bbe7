/**
 * Witnesses of a lock on one machine: a file that exists while the lock is held, and the last token.
 *
 * @module
 */
import { readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { scaled } from "../time.ts";

/** How long, in ms, a killed process may take to end. */
const ENDS_WITHIN_MS = scaled(10_000);

/** A broken promise, in words. */
export type Violation = string;

/** Watches one lock in all processes. Needs `/proc`. */
export class Witness {
  readonly #path: string;

  /** @param path A path that all processes use for this lock. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Records that this process holds the lock. */
  enter(token: bigint): Violation | null {
    return this.#create() ?? this.#compare(token);
  }

  /** Records that this process is about to release the lock. */
  leave(): void {
    rmSync(this.#path);
  }

  /** Creates the witness, a link to a process id: a link is created with its content, or not at all. */
  #create(): Violation | null {
    while (!isCreated(this.#path)) {
      const pid = pidIn(this.#path);
      for (let waitedMs = 0; !hasEnded(pid); waitedMs++) {
        if (pidIn(this.#path) !== pid) return `${process.pid} and ${pid} held the lock at once`;
        if (waitedMs > ENDS_WITHIN_MS) return `${process.pid} was granted the lock of ${pid}`;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      }
      rmSync(this.#path, { force: true });
    }
    return null;
  }

  #compare(token: bigint): Violation | null {
    const last = lastToken(`${this.#path}.token`);
    writeFileSync(`${this.#path}.token`, token.toString());
    return token > last ? null : `token ${token} follows ${last}`;
  }
}

function isCreated(path: string): boolean {
  try {
    symlinkSync(String(process.pid), path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  }
}

/** The process that created the witness; 0 if there is none. */
function pidIn(path: string): number {
  try {
    return Number(readlinkSync(path));
  } catch {
    return 0;
  }
}

function hasEnded(pid: number): boolean {
  if (pid === 0) return false;
  try {
    return /^\d+ \(.*\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return true;
  }
}

/** 0 if there is none, or if a process was killed while it wrote it. */
function lastToken(path: string): bigint {
  try {
    return BigInt(readFileSync(path, "latin1"));
  } catch {
    return 0n;
  }
}
