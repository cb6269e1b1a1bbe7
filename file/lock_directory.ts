/**
 * The directory of the lock files: its default, its creation, the paths in it, and the errors of a call
 * that uses them. The check of who may write to it is in `trust.ts`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { codeOf, SetupFailure, toLockError } from "./failures.ts";
import { PRIVATE_MODE } from "./regular_file.ts";
import type { FileSystem } from "./system/port.ts";
import { TokenFile } from "./tokens.ts";
import { checkTrusted } from "./trust.ts";

/** Environment variables that name the temporary directory, in order of preference. */
const TEMP_DIRS = ["TMPDIR", "TMP", "TEMP"];

/** The name of the file that remembers the tokens of deleted lock files. */
const TOKEN_FILE = "holdfast.tokens";
const LOCK_FILE = /^[0-9a-f]{64}\.lock$/;

/** Where the file of a lock is. */
export interface LockPlace {
  /** The file system of the runtime. */
  readonly fs: FileSystem;
  readonly path: string;
  /** The name of the lock, written into a new file. */
  readonly name: string;
  /** The mode of a new file. */
  readonly fileMode: number;
  /** The tokens of deleted files in the same directory. */
  readonly tokens: TokenFile;
}

/** A directory that exists and was checked. */
interface CheckedDirectory {
  readonly path: string;
  /** The mode of new files in it. */
  readonly fileMode: number;
  readonly tokens: TokenFile;
}

/**
 * The directory of one `FileLock`. Its path is fixed when it is created. Each call throws a
 * `LockSetupError` or a `LockUnavailableError` if the file system refuses.
 */
export class LockDirectory {
  readonly #fs: FileSystem;
  /** The absolute path, or why there is none. */
  readonly #path: string | { readonly failure: SetupFailure };
  readonly #isShared: boolean;
  #checked: CheckedDirectory | null = null;

  /**
   * Fixes the path. Touches no file but those that the default depends on.
   *
   * @param fs The file system of the runtime.
   * @param dir The directory; the user's own one by default.
   * @param isShared Whether other users may write to it.
   */
  constructor(fs: FileSystem, dir: string | undefined, isShared: boolean) {
    this.#fs = fs;
    this.#isShared = isShared;
    try {
      this.#path = resolve(dir ?? defaultDir(fs));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      this.#path = { failure: new SetupFailure(why, { cause }) };
    }
  }

  /**
   * Does something with the file of a lock. Creates the directory if it does not exist; also once more
   * if it was removed meanwhile.
   */
  use<T>(name: string, action: (place: LockPlace) => T): T {
    let path: string | undefined;
    for (let isRetry = false;; isRetry = true) {
      try {
        const { path: dir, fileMode, tokens } = this.#checked ?? this.#open();
        path = lockPath(dir, name);
        return action({ fs: this.#fs, path, name, fileMode, tokens });
      } catch (error) {
        this.#checked = null; // Looks at the directory anew: it may have been removed.
        if (isRetry || codeOf(error) !== "ENOENT") throw toLockError(error, name, path);
      }
    }
  }

  /** The same without creating the directory: `null` if it does not exist. */
  useIfExists<T>(name: string, action: (path: string) => T): T | null {
    try {
      const dir = this.#find();
      return dir === null ? null : action(lockPath(dir.path, name));
    } catch (error) {
      throw toLockError(error, name);
    }
  }

  /** Creates the directory unless it exists. One that is shared must: only its users know its mode. */
  #open(): CheckedDirectory {
    const found = this.#find();
    if (found !== null) return found;
    const path = this.#fixedPath();
    if (this.#isShared) throw missing(path);
    this.#fs.makeDirectory(path, 0o700);
    return this.#check();
  }

  #find(): CheckedDirectory | null {
    try {
      return this.#checked ?? this.#check();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return null;
      throw error;
    }
  }

  #check(): CheckedDirectory {
    const path = this.#fixedPath();
    if (!this.#isShared) checkTrusted(this.#fs, path);
    const fileMode = this.#isShared ? sharedMode(this.#fs, path) : PRIVATE_MODE;
    const tokens = new TokenFile(this.#fs, join(path, TOKEN_FILE), fileMode);
    return this.#checked = { path, fileMode, tokens };
  }

  #fixedPath(): string {
    if (typeof this.#path === "string") return this.#path;
    throw this.#path.failure;
  }
}

/** The path of a lock's file. A digest names the file, since file systems limit length and case. */
export function lockPath(dir: string, name: string): string {
  return join(dir, `${createHash("sha256").update(name, "utf8").digest("hex")}.lock`);
}

/**
 * Lists lock files of a directory, at most `most`, from a random one on: so that several processes,
 * and one process again and again, look at all of them in the end.
 */
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
  if (!isDirectory) throw new SetupFailure(`${JSON.stringify(dir)} is not a directory`);
  return (mode ?? 0) & 0o666 | PRIVATE_MODE;
}

function missing(dir: string): SetupFailure {
  const command = `install -d -m 2770 -g GROUP ${JSON.stringify(dir)}`;
  return new SetupFailure(
    `the shared directory does not exist: create it, for instance by ${command}`,
  );
}

/**
 * The default directory: a user's own one, since a second user could not write to that of the first.
 *
 * @throws {Error} If the environment may not be read. There is no fallback: two
 * processes with different permissions could then use different directories, and both hold a lock.
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
