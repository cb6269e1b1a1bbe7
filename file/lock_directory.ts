import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pause, SYSTEM_CLOCK } from "../core/time/clock.ts";
import { codeOf, SetupFailure, toLockError } from "./failures.ts";
import {
  type LockedFile,
  look,
  type NotLocked,
  observe,
  readName,
  type Record,
  tryLock,
} from "./locked_file.ts";
import { PRIVATE_MODE } from "./regular_file.ts";
import type { FileInfo, FileSystem } from "./system/port.ts";
import { TokenFile } from "./tokens.ts";
import { checkTrusted } from "./trust.ts";

const TEMP_DIRS = ["TMPDIR", "TMP", "TEMP"];

/** The name of the file that remembers the tokens of deleted lock files. */
const TOKEN_FILE = "holdfast.tokens";
/** How many files `list()` reads in one turn of the event loop. */
const LISTED_PER_TURN = 32;
const LOCK_FILE = /^[0-9a-f]{64}\.lock$/;

/**
 * The directory of one `FileLock`. Its path is fixed when it is created. Each call throws a
 * `LockSetupError` or a `LockUnavailableError` if the file system refuses.
 */
export class LockDirectory {
  readonly #fs: FileSystem;
  /** The absolute path; empty if there is none. */
  readonly path: string;
  readonly #failure: SetupFailure | null = null;
  readonly #isShared: boolean;
  readonly #keepsFiles: boolean;
  /** Identifies the instance in the files. */
  readonly #lockerId: string = crypto.randomUUID().slice(0, 8);
  /** The tokens of deleted files; `null` until the directory exists and was checked. */
  #tokens: TokenFile | null = null;
  /** The directory as it was checked; `null` if it is shared. */
  #checked: FileInfo | null = null;

  /** Fixes the path. Touches no file but those that the default depends on. */
  constructor(
    fs: FileSystem,
    { dir, sharedDir, keepFiles }: {
      readonly dir?: string | undefined;
      readonly sharedDir: boolean;
      readonly keepFiles: boolean;
    },
  ) {
    this.#fs = fs;
    this.#isShared = sharedDir;
    this.#keepsFiles = keepFiles;
    let path = "";
    try {
      path = resolve(dir ?? defaultDir(fs));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      this.#failure = new SetupFailure(why, { cause });
    }
    this.path = path;
  }

  /**
   * Tries to lock the file of a lock. Creates the directory if it does not exist; also once more if it was removed
   * meanwhile. `looksFirst`: tries only if a look says so, as a try that fails wakes the waiters of other processes.
   * `mayYield`: lets other processes go first after several grants in a row.
   */
  tryLock(
    name: string,
    label: string,
    { looksFirst, mayYield }: { readonly looksFirst: boolean; readonly mayYield: boolean },
  ): LockedFile | NotLocked {
    let path: string | undefined;
    for (let isRetry = false;; isRetry = true) {
      try {
        const tokens = this.#open();
        path = lockPath(this.path, name);
        const seen = looksFirst ? look(this.#fs, path) : "free";
        if (seen !== "free") return seen;
        const file = { fs: this.#fs, path, name, isKept: this.#keepsFiles, tokens };
        return tryLock(file, { lockerId: this.#lockerId, label }, mayYield);
      } catch (error) {
        this.#tokens = null; // Looks at the directory anew: it may have been removed.
        if (isRetry || codeOf(error) !== "ENOENT") throw toLockError(error, name, path);
      }
    }
  }

  /** Finds out who has locked the file of a lock, as {@linkcode observe} does. Creates no directory. */
  observe(name: string): Record | "free" | "unmarked" {
    try {
      return this.#find() === null ? "free" : observe(this.#fs, lockPath(this.path, name));
    } catch (error) {
      throw toLockError(error, name);
    }
  }

  /** The names in the lock files. A file whose path does not fit its name is no lock file. Errors name `what`. */
  async *names(what: string): AsyncGenerator<string> {
    try {
      this.#find(); // checks who may write there
      let count = 0;
      for (const file of await readdir(this.path)) {
        if (!LOCK_FILE.test(file)) continue;
        if (++count % LISTED_PER_TURN === 0) await pause(SYSTEM_CLOCK, 0); // reading is synchronous
        const path = join(this.path, file);
        const name = readName(this.#fs, path);
        if (name !== null && lockPath(this.path, name) === path) yield name;
      }
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw toLockError(error, what);
    }
  }

  /** Creates the directory unless it exists. One that is shared must: only its users know its mode. */
  #open(): TokenFile {
    const found = this.#find();
    if (found !== null) return found;
    const dir = JSON.stringify(this.path);
    if (this.#isShared) {
      throw new SetupFailure(
        "the shared directory does not exist: create it, for instance by " +
          `install -d -m 2770 -g GROUP ${dir}`,
      );
    }
    try {
      this.#fs.makeDirectory(this.path, 0o700);
    } catch (cause) {
      if (codeOf(cause) !== "ENOENT") throw cause;
      throw new SetupFailure(`${dir} cannot be created: choose another 'dir'`, { cause });
    }
    return this.#check();
  }

  #find(): TokenFile | null {
    try {
      return this.#tokens !== null && this.#isAsChecked() ? this.#tokens : this.#check();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return null;
      throw error;
    }
  }

  /**
   * Whether the path still leads to the directory that was checked. It may have been removed since, and
   * another user may have made it anew: perhaps with the same number, but not with the same owner.
   */
  #isAsChecked(): boolean {
    if (this.#checked === null) return true;
    const { dev, ino, uid, mode } = this.#fs.lstat(this.path);
    const checked = this.#checked;
    return ino === checked.ino && dev === checked.dev && uid === checked.uid &&
      mode === checked.mode;
  }

  #check(): TokenFile {
    if (this.#failure !== null) throw this.#failure;
    this.#checked = this.#isShared ? null : checkTrusted(this.#fs, this.path);
    const mode = this.#isShared ? sharedMode(this.#fs, this.path) : PRIVATE_MODE;
    return this.#tokens = new TokenFile(this.#fs, join(this.path, TOKEN_FILE), mode);
  }
}

/** The path of a lock's file. A digest names the file, since file systems limit length and case. */
export function lockPath(dir: string, name: string): string {
  return join(dir, `${createHash("sha256").update(name, "utf8").digest("hex")}.lock`);
}

/** Lists up to `most` lock files, from a random one on, so that repeated calls see all of them in the end. */
export async function someLockFiles(dir: string, most: number): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile() && LOCK_FILE.test(entry.name))
    .map(({ name }) => name);
  const start = Math.floor(Math.random() * names.length);
  return [...names.slice(start), ...names.slice(0, start)].slice(0, most)
    .map((name) => join(dir, name));
}

/** Files in a shared directory have its own mode: its users can lock them, and nobody else can. */
function sharedMode(fs: FileSystem, dir: string): number {
  const { isDirectory, mode } = fs.stat(dir);
  if (!isDirectory) {
    throw new SetupFailure(`${JSON.stringify(dir)} is not a directory: choose another 'dir'`);
  }
  return (mode ?? 0) & 0o666 | PRIVATE_MODE;
}

/**
 * The user's own directory, since a second user could not write to that of the first. Throws if the environment may
 * not be read: with a fallback, two processes with different permissions could use different directories, and both
 * hold a lock.
 */
function defaultDir(fs: FileSystem): string {
  const uid = fs.uid();
  const runtimeDir = fs.env("XDG_RUNTIME_DIR");
  if (runtimeDir && isOwnedBy(fs, uid, runtimeDir)) return join(runtimeDir, "holdfast");
  const tempDir = TEMP_DIRS.map((variable) => fs.env(variable)).find((dir) => dir) ?? "/tmp";
  return join(tempDir, uid === null ? "holdfast" : `holdfast-${uid}`);
}

/** After `su` the variable may still name the directory of another user. */
function isOwnedBy(fs: FileSystem, uid: number | null, dir: string): boolean {
  try {
    return fs.stat(dir).uid === uid;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}
