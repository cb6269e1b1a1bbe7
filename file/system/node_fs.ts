import {
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { constants as osConstants } from "node:os";
import { dirname } from "node:path";
import process from "node:process";
import { codeOf, codeOfNumber } from "../failures.ts";
import { type Inotify, watchBy } from "./inotify.ts";
import type { FileInfo, FileSystem, OpenFile } from "./port.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR } = constants;
/** Node always sets it, and does not export it. Bun 1.3 does not: a child would keep the lock. */
const O_CLOEXEC = { linux: 0o2000000, darwin: 0x1000000 }[process.platform as string] ?? 0;
const SAFE = O_NOFOLLOW | O_CLOEXEC;
const ACCESS = { read: O_RDONLY | SAFE, write: O_RDWR | SAFE } as const;
/** The numbers of files and devices can be above 2^53. */
const EXACT = { bigint: true } as const;

/** The operations of `flock(2)`: the same numbers on Linux, macOS and the BSDs. */
const FLOCK = { shared: 1, exclusive: 2, withoutWaiting: 4, unlock: 8 } as const;
/** 11 on Linux, 35 on macOS. No other error means that the file is locked. */
const { EWOULDBLOCK } = osConstants.errno;

/** The file system by `node:fs`, for Node and Bun, with the calls that it lacks. */
export function nodeFileSystem({ flock, inotify }: {
  /** Returns 0, or the `errno` of a failure. */
  readonly flock: (fd: number, operation: number) => number;
  /** `null` on other systems than Linux. */
  readonly inotify: Inotify | null;
}): FileSystem {
  return {
    open: (path, access) => new NodeFile(flock, openSync(path, ACCESS[access])),
    create: (path, mode) => {
      return new NodeFile(flock, openSync(path, ACCESS.write | O_CREAT | O_EXCL, mode));
    },
    stat: (path) => infoOf(statSync(path, EXACT)),
    lstat: (path) => infoOf(lstatSync(path, EXACT)),
    realPath: (path) => realpathSync(path),
    readLink: (path) => readlinkSync(path),
    makeDirectory,
    unlink: (path) => unlinkSync(path),
    uid: () => process.geteuid?.() ?? null,
    env: (name) => process.env[name],
    wallUs: wallClock(),
    watch: (dir, listener) => inotify === null ? null : watchBy(inotify, dir, listener),
  };
}

class NodeFile implements OpenFile {
  readonly #flock: (fd: number, operation: number) => number;
  #fd: number;

  constructor(flock: (fd: number, operation: number) => number, fd: number) {
    this.#flock = flock;
    this.#fd = fd;
  }

  tryLock(isExclusive: boolean): boolean {
    const operation = isExclusive ? FLOCK.exclusive : FLOCK.shared;
    const errno = this.#flock(this.#fd, operation | FLOCK.withoutWaiting);
    if (errno === EWOULDBLOCK) return false;
    if (errno !== 0) throw flockError(errno);
    return true;
  }

  unlock(): void {
    const errno = this.#flock(this.#fd, FLOCK.unlock);
    if (errno !== 0) throw flockError(errno);
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

function flockError(errno: number): Error {
  const code = codeOfNumber(errno);
  return Object.assign(new Error(`flock failed: ${code ?? "unknown"} (errno ${errno})`), { code });
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

/**
 * Creates a directory, and those above it. Not by Node's option for that: with it the call never returns in
 * `/proc`, where nothing can be created.
 */
function makeDirectory(path: string, mode: number): void {
  const above = dirname(path);
  if (!existsSync(above)) makeDirectory(above, mode);
  try {
    mkdirSync(path, mode);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
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
