/**
 * The watch of a directory by `node:fs`, for Node and Bun. It reports writes, but no close of a file.
 *
 * @module
 */
import { type FSWatcher, watch } from "node:fs";
import process from "node:process";
import type { DirectoryListener, DirectoryWatch, WatchDirectory } from "./port.ts";

/** Watches a directory. A release writes to the file, so it is reported. Needs Linux. */
export const watchByNode: WatchDirectory = (dir, listener) => {
  if (process.platform !== "linux") return null;
  try {
    return new NodeWatch(dir, listener);
  } catch {
    return null; // For instance at the system's limit of watches.
  }
};

class NodeWatch implements DirectoryWatch {
  readonly seesKills: boolean = false;
  readonly #watcher: FSWatcher;
  #listener: DirectoryListener | null;

  constructor(dir: string, listener: DirectoryListener) {
    this.#listener = listener;
    this.#watcher = watch(dir, { persistent: false });
    this.#watcher.on("change", (_kind, fileName) => {
      if (typeof fileName === "string") this.#listener?.onChange(fileName);
      else this.#listener?.onAnyChange();
    });
    this.#watcher.on("error", () => {
      const ended = this.#listener;
      this.close();
      ended?.onEnd();
    });
  }

  close(): void {
    this.#listener = null;
    this.#watcher.close();
  }
}
