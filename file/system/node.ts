/**
 * The file system of Node. It has no call for `flock`, so the package koffi calls it.
 *
 * @module
 */
import process from "node:process";
import { loadPackage, PackageNotFound } from "../../packages/load_package.ts";
import { SetupFailure } from "../failures.ts";
import { nodeFileSystem, type SystemCalls } from "./node_fs.ts";
import { type Define, nodeInotify } from "./node_inotify.ts";
import type { FileSystem } from "./port.ts";

/** Part of the package koffi. */
interface Koffi {
  /** `null` is the process: it has the C library of Node itself, glibc, musl or that of macOS. */
  load(path: null): { func: Define };
  /** The `errno` of the last call in this thread. */
  errno(): number;
}

/**
 * Returns the file system of Node.
 *
 * @throws {SetupFailure} If koffi is not installed or does not work here.
 */
export function nodeWithKoffi(): FileSystem {
  return nodeFileSystem(loaded ??= loadCalls());
}

/** Loaded once: each definition of a function stays in memory. */
let loaded: SystemCalls | null = null;

function loadCalls(): SystemCalls {
  try {
    const koffi = loadPackage<Koffi>("koffi");
    const library = koffi.load(null);
    const flock = library.func("int flock(int fd, int operation)");
    return {
      flock: (fd, operation) => flock(fd, operation) === 0 ? 0 : koffi.errno(),
      inotify: process.platform === "linux"
        ? nodeInotify((prototype) => library.func(prototype))
        : null,
    };
  } catch (cause) {
    const why = cause instanceof PackageNotFound
      ? `is not installed where ${cause.places} can find it: run \`npm install koffi\``
      : `does not work here (${cause instanceof Error ? cause.message : cause}): install it again`;
    throw new SetupFailure(
      `on Node it locks files with the package "koffi", which ${why}, or choose another strategy`,
      { cause },
    );
  }
}
