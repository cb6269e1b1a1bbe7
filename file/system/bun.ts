/**
 * The file system of Bun, which calls `flock` by its own `bun:ffi`.
 *
 * @module
 */
import process from "node:process";
import { SetupFailure } from "../failures.ts";
import { firstOf, type Flock, load } from "./flock.ts";
import { nodeFileSystem } from "./node_fs.ts";
import type { FileSystem } from "./port.ts";

/** Part of `bun:ffi`. */
interface BunFfi {
  dlopen(library: string, symbols: Record<string, { args: string[]; returns: string }>): {
    symbols: Record<string, (...args: number[]) => number>;
  };
  read: { i32(pointer: number, offset: number): number };
}

/** The C library of Linux, and its function that returns where the `errno` of a thread is. */
const LINUX = {
  // glibc, then musl.
  names: [
    "libc.so.6",
    `libc.musl-${{ x64: "x86_64", arm64: "aarch64" }[process.arch as string]}.so.1`,
  ],
  errnoLocation: "__errno_location",
};
const MACOS = { names: ["libSystem.B.dylib"], errnoLocation: "__error" };

/**
 * Returns the file system of Bun.
 *
 * @throws {SetupFailure} If `bun:ffi` cannot call `flock` here.
 */
export function bunWithFfi(): FileSystem {
  return nodeFileSystem(loaded ??= loadFlock());
}

let loaded: Flock | null = null;

function loadFlock(): Flock {
  try {
    return open(load<BunFfi>("bun:ffi"), process.platform === "darwin" ? MACOS : LINUX);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : cause;
    throw new SetupFailure(
      `on Bun it locks files with \`bun:ffi\`, which does not work here (${why}): choose another strategy`,
      { cause },
    );
  }
}

function open({ dlopen, read }: BunFfi, { names, errnoLocation }: typeof LINUX): Flock {
  const symbols = firstOf(names, (name) =>
    dlopen(name, {
      flock: { args: ["i32", "i32"], returns: "i32" },
      [errnoLocation]: { args: [], returns: "ptr" },
    }).symbols);
  const flock = symbols["flock"]!;
  const errno = symbols[errnoLocation]!(); // It stays where it is as long as the thread lives.
  // Read at once: the next call of the system may change it.
  return (fd, operation) => flock(fd, operation) === 0 ? 0 : read.i32(errno, 0);
}
