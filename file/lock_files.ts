/**
 * The lock files of one `FileLock`, by the names of the locks: makes each call of a file report the
 * errors of a lock. Polling, queues and leases are in `file_lock.ts`.
 *
 * @module
 */
import { Cleaner } from "./cleaner.ts";
import { LockDirectory, lockPath } from "./directory.ts";
import { codeOf, toLockError } from "./faults.ts";
import { type LockPlace, look, observe, tryLock, type TryLockResult } from "./lock_file.ts";
import type { Record } from "./record.ts";
import type { FileSystem } from "./system/port.ts";

/** Options of {@linkcode LockFiles}; see `FileLockOptions`. */
export interface LockFilesOptions {
  readonly dir: string | undefined;
  readonly sharedDir: boolean;
  readonly keepFiles: boolean;
}

/** Each call throws a `LockSetupError` or a `LockUnavailableError` if the file system refuses. */
export class LockFiles {
  /** Identifies the instance in the files. */
  readonly #id: string = crypto.randomUUID().slice(0, 8);
  readonly #fs: FileSystem;
  readonly #directory: LockDirectory;
  /** `null` if files are never deleted. */
  readonly #cleaner: Cleaner | null;

  constructor(fs: FileSystem, { dir, sharedDir, keepFiles }: LockFilesOptions) {
    this.#fs = fs;
    this.#directory = new LockDirectory(fs, dir, sharedDir);
    this.#cleaner = keepFiles ? null : new Cleaner(fs);
  }

  /** See {@linkcode tryLock}. The label is that of the call. */
  tryLock(name: string, mayYield: boolean, label: string): TryLockResult {
    return this.#run(name, (place) => {
      const result = tryLock(place, { id: this.#id, label }, mayYield);
      if (typeof result === "string") return result;
      return {
        ...result,
        release: () => {
          result.release();
          this.#cleaner?.release(place);
        },
      };
    });
  }

  /** Tries to lock the file if a {@linkcode look} says so. */
  tryLockAfterLook(name: string, label: string): TryLockResult {
    const seen = this.#run(name, ({ path }) => look(this.#fs, path));
    return seen === "free" ? this.tryLock(name, true, label) : seen;
  }

  /** The path of a lock's file. Creates the directory if it does not exist. */
  path(name: string): string {
    return this.#run(name, ({ path }) => path);
  }

  /** See {@linkcode observe}. Does not create the directory either. */
  observe(name: string): Record | "free" | "unmarked" {
    return this.#translate(name, () => {
      const directory = this.#directory.find();
      return directory === null ? "free" : observe(this.#fs, lockPath(directory.path, name));
    });
  }

  /** Deletes files that are not in use. Takes `timeoutMs` at most. */
  async close(timeoutMs: number): Promise<void> {
    await this.#cleaner?.close(timeoutMs);
  }

  /** Creates the directory if it does not exist; also once more if it was removed. */
  #run<T>(name: string, action: (place: LockPlace) => T): T {
    return this.#translate(name, (at) => {
      for (let isRetry = false;; isRetry = true) {
        try {
          const { path: dir, fileMode, tokens } = this.#directory.open();
          const path = at.path = lockPath(dir, name);
          return action({ fs: this.#fs, path, name, fileMode, tokens });
        } catch (error) {
          this.#directory.forget();
          if (isRetry || codeOf(error) !== "ENOENT") throw error;
        }
      }
    });
  }

  #translate<T>(name: string, action: (at: { path?: string }) => T): T {
    const at: { path?: string } = {};
    try {
      return action(at);
    } catch (cause) {
      throw toLockError(cause, name, at.path);
    }
  }
}
