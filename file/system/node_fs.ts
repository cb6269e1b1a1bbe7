/**
 * The file system by `node:fs`, for Node and Bun. The runtimes open files so that programs which they
 * start do not get them (close-on-exec).
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
  writeSync,
} from "node:fs";
import process from "node:process";
import { type Flock, tryLockBy, unlockBy } from "./flock.ts";
import { watchByNode } from "./node_watch.ts";
import type { FileInfo, FileSystem, OpenFile } from "./port.ts";
import { WallClock } from "./wall_clock.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR } = constants;
const ACCESS = { read: O_RDONLY, write: O_RDWR } as const;
/** The numbers of files and devices can be above 2^53. */
const EXACT = { bigint: true } as const;
const CLOCK = new WallClock();

/** Returns the file system of `node:fs`, with locks by a function of the runtime. */
export function nodeFileSystem(flock: Flock): FileSystem {
  return {
    hasModes: true,
    open: (path, access) => new NodeFile(flock, openSync(path, ACCESS[access] | O_NOFOLLOW)),
    create: (path, mode) => {
      return new NodeFile(flock, openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
    },
    stat: (path) => infoOf(statSync(path, EXACT)),
    lstat: (path) => infoOf(lstatSync(path, EXACT)),
    realPath: (path) => realpathSync(path),
    makeDirectory: (path, mode) => void mkdirSync(path, { recursive: true, mode }),
    unlink: (path) => unlinkSync(path),
    uid: () => process.getuid?.() ?? null,
    env: (name) => process.env[name],
    wallUs: () => CLOCK.nowUs(),
    watch: watchByNode,
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
