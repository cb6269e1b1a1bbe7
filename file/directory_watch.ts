/**
 * The port through which the runtime reports changes of the files in a directory, and how Deno does it.
 * Nothing here knows locks.
 *
 * @module
 */
import { basename } from "node:path";

/** Is notified of changes. Its methods must not throw. */
export interface DirectoryListener {
  /**
   * A process has closed a file of this name after it could write to it, was killed while the file was
   * open, or has removed or renamed the file.
   */
  onChange(fileName: string): void;
  /** Any file may have changed: some changes were not reported. */
  onAnyChange(): void;
  /** The watch has ended because the runtime has given it up. The last call. */
  onEnd(): void;
}

/** A running watch. */
export interface DirectoryWatch {
  /** Ends the watch. It then calls its listener no more. */
  close(): void;
}

/**
 * Watches a directory, but does not keep the process alive. Returns `null` if changes cannot be watched:
 * because the system does not report that a process was killed, or because it refuses.
 */
export type WatchDirectory = (dir: string, listener: DirectoryListener) => DirectoryWatch | null;

/** Part of `Deno.FsWatcher`. Its types lack `unref()`, which counts for the last `next()` only. */
interface Watcher {
  next(): Promise<IteratorResult<Deno.FsEvent>>;
  unref(): void;
  close(): void;
}

/**
 * The kinds of events after which a lock may be free. The close of a file that could be written is an
 * `access`, and to read a file gives no event. A `modify` is ignored: a new holder also writes.
 */
const KINDS: ReadonlySet<Deno.FsEvent["kind"]> = new Set(["access", "remove", "rename"]);

/** Only Linux reports the close of a file when its process was killed. */
const HAS_CLOSE_EVENTS: ReadonlySet<string> = new Set(["linux", "android"]);

/** Watches a directory with `Deno.watchFs`. Needs Linux. */
export const watchDirectory: WatchDirectory = (dir, listener) => {
  if (!HAS_CLOSE_EVENTS.has(Deno.build.os)) return null;
  try {
    return new DenoWatch(dir, listener);
  } catch {
    return null; // For instance at the system's limit of watches, or because a runtime has none.
  }
};

/**
 * Identifies the directory at a path; `""` if there is none. Not every runtime reports that a directory
 * which it watches was removed or renamed.
 */
export function directoryId(path: string): string {
  try {
    const { dev, ino, birthtime } = Deno.statSync(path);
    return `${dev} ${ino} ${birthtime?.getTime()}`; // The next directory may get the same number.
  } catch {
    return "";
  }
}

class DenoWatch implements DirectoryWatch {
  readonly #watcher: Watcher;
  #listener: DirectoryListener | null;

  constructor(dir: string, listener: DirectoryListener) {
    this.#watcher = Deno.watchFs(dir, { recursive: false }) as unknown as Watcher;
    this.#listener = listener;
    void this.#run();
  }

  close(): void {
    this.#listener = null;
    this.#watcher.close();
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#next();
        if (done) break;
        this.#report(value);
      }
    } catch {
      // The runtime could not go on.
    }
    this.#listener?.onEnd();
    this.close();
  }

  #next(): Promise<IteratorResult<Deno.FsEvent>> {
    const next = this.#watcher.next();
    this.#watcher.unref();
    return next;
  }

  #report({ kind, paths }: Deno.FsEvent): void {
    if (kind === "any") this.#listener?.onAnyChange(); // There were too many events.
    if (!KINDS.has(kind)) return;
    for (const path of paths) this.#listener?.onChange(basename(path));
  }
}
