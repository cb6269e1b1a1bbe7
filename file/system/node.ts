/**
 * The file system of Node. It has no call for `flock`, so the package koffi calls it.
 *
 * @module
 */
import { SetupFailure } from "../failures.ts";
import { type Flock, load } from "./flock.ts";
import { nodeFileSystem } from "./node_fs.ts";
import type { FileSystem } from "./port.ts";

/** Part of the package koffi. */
interface Koffi {
  /** `null` is the process: it has the C library of Node itself, glibc, musl or that of macOS. */
  load(path: null): { func(prototype: string): (fd: number, operation: number) => number };
  /** The `errno` of the last call in this thread. */
  errno(): number;
}

/**
 * Returns the file system of Node.
 *
 * @throws {SetupFailure} If koffi is not installed or does not work here.
 */
export function nodeWithKoffi(): FileSystem {
  return nodeFileSystem(loaded ??= loadFlock());
}

/** Loaded once: each definition of a function stays in memory. */
let loaded: Flock | null = null;

function loadFlock(): Flock {
  try {
    const koffi = load<Koffi>("koffi");
    const flock = koffi.load(null).func("int flock(int fd, int operation)");
    return (fd, operation) => flock(fd, operation) === 0 ? 0 : koffi.errno();
  } catch (cause) {
    const why = (cause as { code?: string } | null)?.code === "MODULE_NOT_FOUND"
      ? "is not installed"
      : `does not work here (${cause instanceof Error ? cause.message : cause})`;
    throw new SetupFailure(
      `on Node it locks files with the package "koffi", which ${why}: run \`npm install koffi\`, or ` +
        "choose another strategy",
      { cause },
    );
  }
}
