import { basename } from "node:path";
import { codeOf, codeOfNumber, SetupFailure } from "../failures.ts";
import type { DirectoryListener, FileInfo, FileSystem, OpenFile } from "./port.ts";

const ACCESS = { read: { read: true }, write: { read: true, write: true } } as const;

/** Deno 2.8 does not report that it missed changes, and 2.8.0 does not end a watch that is closed. */
const WITHOUT_WATCH = /^2\.8\./;

/** The file system by Deno's own API, which locks files by `flock`. Throws a `SetupFailure` if it cannot. */
export function denoFileSystem(version: string): FileSystem {
  if (typeof globalThis.Deno?.FsFile?.prototype.tryLockSync === "function") {
    return WITHOUT_WATCH.test(version) ? { ...FILE_SYSTEM, watch: () => null } : FILE_SYSTEM;
  }
  throw new SetupFailure(
    "this runtime cannot lock files, as it has no Deno.FsFile.tryLockSync(): use Deno 2.8 or later, " +
      "or another strategy",
  );
}

class DenoFile implements OpenFile {
  readonly #file: Deno.FsFile;

  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  tryLock(isExclusive: boolean): boolean {
    try {
      return this.#file.tryLockSync(isExclusive);
    } catch (error) {
      throw withCode(error);
    }
  }

  unlock(): void {
    this.#file.unlockSync();
  }

  stat(): FileInfo {
    return this.#file.statSync();
  }

  read(offset: number, bytes: Uint8Array): number {
    this.#file.seekSync(offset, Deno.SeekMode.Start);
    return this.#file.readSync(bytes) ?? 0;
  }

  write(offset: number, bytes: Uint8Array): number {
    this.#file.seekSync(offset, Deno.SeekMode.Start);
    return this.#file.writeSync(bytes);
  }

  close(): void {
    this.#file.close();
  }
}

/** Deno gives some errors no code, such as ENOLCK and ENOSYS. Their messages end with the number. */
function withCode(error: unknown): unknown {
  if (!(error instanceof Error) || codeOf(error) !== undefined) return error;
  const errno = /\(os error (\d+)\)$/.exec(error.message)?.[1];
  if (errno === undefined) return error;
  return Object.assign(error, { code: codeOfNumber(Number(errno)) });
}

/**
 * The kinds of events after which a lock may be free. The close of a file that could be written is an
 * `access`, and to read a file gives no event. A `modify` is ignored: a new holder also writes.
 */
const KINDS: ReadonlySet<string> = new Set(["access", "remove", "rename"]);

/** Only Linux reports the close of a file when its process was killed. */
const HAS_CLOSE_EVENTS: ReadonlySet<string> = new Set(["linux", "android"]);

/** Returns a function that ends the watch. Throws if the system refuses. */
function watchDirectory(dir: string, listener: DirectoryListener): () => void {
  const watcher = Deno.watchFs(dir, { recursive: false }) as
    & Deno.FsWatcher
    & { next(): Promise<IteratorResult<Deno.FsEvent>>; unref(): void };
  let isOpen = true;
  const report = ({ kind, paths }: Deno.FsEvent) => {
    if (kind === "any" && isOpen) listener.onAnyChange(); // There were too many events.
    if (!KINDS.has(kind)) return;
    for (const path of paths) if (isOpen) listener.onChange(basename(path));
  };
  const close = () => {
    isOpen = false;
    watcher.close();
  };
  const run = async () => {
    try {
      for (;;) {
        const next = watcher.next();
        watcher.unref(); // it counts for this `next()` only
        const { done, value } = await next;
        if (done) break;
        report(value);
      }
    } catch {
      // The runtime could not go on.
    }
    if (isOpen) listener.onEnd();
    close();
  };
  void run();
  return close;
}

const FILE_SYSTEM: FileSystem = {
  open: (path, access) => new DenoFile(Deno.openSync(path, ACCESS[access])),
  create: (path, mode) =>
    new DenoFile(Deno.openSync(path, { read: true, write: true, createNew: true, mode })),
  stat: (path) => Deno.statSync(path),
  lstat: (path) => Deno.lstatSync(path),
  realPath: (path) => Deno.realPathSync(path),
  readLink: (path) => Deno.readLinkSync(path),
  makeDirectory: (path, mode) => Deno.mkdirSync(path, { recursive: true, mode }),
  unlink: (path) => Deno.removeSync(path),
  uid: () => Deno.uid(),
  env: (name) => Deno.env.get(name),
  wallUs: () => Temporal.Now.instant().epochNanoseconds / 1_000n,
  watch(dir, listener) {
    if (!HAS_CLOSE_EVENTS.has(Deno.build.os)) return null;
    try {
      return watchDirectory(dir, listener);
    } catch {
      return null; // For instance at the system's limit of watches.
    }
  },
};
