/**
 * The directory of the lock files: its default, its creation, and the paths in it. The check of who
 * may write to it is in `trust.ts`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { codeOf, SetupFault } from "./faults.ts";
import { PRIVATE_MODE } from "./regular_file.ts";
import type { FileSystem } from "./system/port.ts";
import { TokenFile } from "./tokens.ts";
import { checkTrusted } from "./trust.ts";

/** Environment variables that name the temporary directory, in order of preference. */
const TEMP_DIRS = ["TMPDIR", "TMP", "TEMP"];

/** The name of the file that remembers the tokens of deleted lock files. */
const TOKEN_FILE = "holdfast.tokens";
const LOCK_FILE = /^[0-9a-f]{64}\.lock$/;

/** A directory that exists and was checked. */
export interface OpenDirectory {
  readonly path: string;
  /** The mode of new files in it. */
  readonly fileMode: number;
  readonly tokens: TokenFile;
}

/** The directory of one `FileLock`. Its path is fixed when it is created. */
export class LockDirectory {
  readonly #fs: FileSystem;
  /** The absolute path, or why there is none. */
  readonly #path: string | { readonly fault: SetupFault };
  readonly #isShared: boolean;
  #open: OpenDirectory | null = null;

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
      this.#path = { fault: new SetupFault(why, { cause }) };
    }
  }

  /**
   * Creates the directory if it does not exist, and checks it. One that is shared must exist: only
   * its users know which mode they need.
   *
   * @throws {SetupFault} If it is refused, or if its path could not be resolved.
   * @throws {Error} If the file system refuses.
   */
  open(): OpenDirectory {
    const found = this.find();
    if (found !== null) return found;
    const path = this.#fixedPath();
    if (this.#isShared) throw missing(path);
    this.#fs.makeDirectory(path, 0o700);
    return this.#check();
  }

  /** The same for a directory that exists; `null` if it does not. */
  find(): OpenDirectory | null {
    try {
      return this.#open ?? this.#check();
    } catch (error) {
      if (codeOf(error) === "ENOENT") return null;
      throw error;
    }
  }

  /** Looks at the directory anew next time, because it was removed. */
  forget(): void {
    this.#open = null;
  }

  #check(): OpenDirectory {
    const path = this.#fixedPath();
    if (!this.#isShared) checkTrusted(this.#fs, path);
    const fileMode = this.#isShared ? sharedMode(this.#fs, path) : PRIVATE_MODE;
    const tokens = new TokenFile(this.#fs, join(path, TOKEN_FILE), fileMode);
    return this.#open = { path, fileMode, tokens };
  }

  #fixedPath(): string {
    if (typeof this.#path === "string") return this.#path;
    throw this.#path.fault;
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
  if (!isDirectory) throw new SetupFault(`${JSON.stringify(dir)} is not a directory`);
  return (mode ?? 0) & 0o666 | PRIVATE_MODE;
}

function missing(dir: string): SetupFault {
  const command = `install -d -m 2770 -g GROUP ${JSON.stringify(dir)}`;
  return new SetupFault(
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
