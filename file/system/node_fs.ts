/**
 * The file system by `node:fs`, for Node and Bun. Its watch reports writes, but no close of a file.
 *
 * @module
 */
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
  unlinkSync,
  watch,
  writeSync,
} from "node:fs";
import process from "node:process";
import { type Flock, tryLockBy, unlockBy } from "./flock.ts";
import type { DirectoryListener, DirectoryWatch, FileInfo, FileSystem, OpenFile } from "./port.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR } = constants;
/** Node always sets it, and does not export it. Bun 1.3 does not: a child would keep the lock. */
const O_CLOEXEC = { linux: 0o2000000, darwin: 0x1000000 }[process.platform as string] ?? 0;
const SAFE = O_NOFOLLOW | O_CLOEXEC;
const ACCESS = { read: O_RDONLY | SAFE, write: O_RDWR | SAFE } as const;
/** The numbers of files and devices can be above 2^53. */
const EXACT = { bigint: true } as const;

/** Returns the file system of `node:fs`, with locks by a function of the runtime. */
export function nodeFileSystem(flock: Flock): FileSystem {
  return {
    hasModes: true,
    open: (path, access) => new NodeFile(flock, openSync(path, ACCESS[access])),
    create: (path, mode) => {
      return new NodeFile(flock, openSync(path, ACCESS.write | O_CREAT | O_EXCL, mode));
    },
    stat: (path) => infoOf(statSync(path, EXACT)),
    lstat: (path) => infoOf(lstatSync(path, EXACT)),
    realPath: (path) => realpathSync(path),
    makeDirectory: (path, mode) => void mkdirSync(path, { recursive: true, mode }),
    unlink: (path) => unlinkSync(path),
    uid: () => process.getuid?.() ?? null,
    env: (name) => process.env[name],
    wallUs: wallClock(),
    watch: watchDirectory,
  };
}

class NodeFile implements OpenFile {
  readonly #flock: Flock;
  #fd: number;

  constructor(flock: Flock, fd: number) {
    this.#flock = flock;
    this.#fd = fd;
  }

  tryLock(isExclusive: boolean): boolean {
    return tryLockBy(this.#flock, this.#fd, isExclusive);
  }

  unlock(): void {
    unlockBy(this.#flock, this.#fd);
  }

  stat(): FileInfo {
    return infoOf(fstatSync(this.#fd, EXACT));
  }

  read(offset: number, bytes: Uint8Array): number {
    return readSync(this.#fd, bytes, 0, bytes.length, offset);
  }

  write(offset: number, bytes: Uint8Array): number {
    return writeSync(this.#fd, bytes, 0, bytes.length, offset);
  }

  close(): void {
    const fd = this.#fd;
    this.#fd = -1; // The system gives the number to another file.
    closeSync(fd);
  }
}

function infoOf(stats: BigIntStats): FileInfo {
  return {
    isFile: stats.isFile(),
    isDirectory: stats.isDirectory(),
    isSymlink: stats.isSymbolicLink(),
    size: Number(stats.size),
    mtime: stats.mtime,
    birthtime: stats.birthtime,
    mode: Number(stats.mode),
    uid: Number(stats.uid),
    nlink: Number(stats.nlink),
    dev: stats.dev,
    ino: stats.ino,
  };
}

/** Needs Linux. A release writes to the file, so it is reported. */
function watchDirectory(dir: string, listener: DirectoryListener): DirectoryWatch | null {
  if (process.platform !== "linux") return null;
  let isOpen = true;
  try {
    const watcher = watch(dir, { persistent: false });
    const close = () => {
      isOpen = false;
      watcher.close();
    };
    watcher.on("change", (_kind, fileName) => {
      if (!isOpen) return;
      if (typeof fileName === "string") listener.onChange(fileName);
      else listener.onAnyChange();
    });
    watcher.on("error", () => {
      const wasOpen = isOpen;
      close();
      if (wasOpen) listener.onEnd();
    });
    return { seesKills: false, close };
  } catch {
    return null; // For instance at the system's limit of watches.
  }
}

/**
 * Returns a wall clock in µs since the epoch, for runtimes whose own one counts ms. Adds the fraction of a ms
 * from the monotonic clock, which counts from a moment that the runtime knows in µs. After the wall clock was
 * set, the result may be wrong by up to a ms.
 */
export function wallClock(): () => bigint {
  /** The wall clock, in ms, when the monotonic one was 0. */
  let originMs = performance.timeOrigin;
  return () => {
    const earliestMs = Date.now();
    const ms = originMs + performance.now();
    const latestMs = Date.now() + 0.999;
    const nowMs = Math.min(Math.max(ms, earliestMs), latestMs);
    originMs += nowMs - ms;
    return BigInt(Math.floor(nowMs * 1_000));
  };
}
