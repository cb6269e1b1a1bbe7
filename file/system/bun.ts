/**
 * The file system of Bun, which calls `flock` by its own `bun:ffi`.
 *
 * @module
 */
import process from "node:process";
import { SetupFailure } from "../failures.ts";
import { BunInotify, type InotifyFunctions } from "./bun_inotify.ts";
import { nodeFileSystem, type SystemCalls } from "./node_fs.ts";
import type { FileSystem } from "./port.ts";

/** The types of a function of the C library. */
interface Prototype {
  readonly args: readonly string[];
  readonly returns: string;
}

/** Part of `bun:ffi`. */
interface BunFfi {
  dlopen(library: string, symbols: Readonly<Record<string, Prototype>>): { symbols: unknown };
  read: { i32(pointer: number, offset: number): number };
}

const INOTIFY: Readonly<Record<keyof InotifyFunctions, Prototype>> = {
  inotify_init1: { args: ["i32"], returns: "i32" },
  inotify_add_watch: { args: ["i32", "ptr", "u32"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u32"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
};

/** The C library of Linux, and its function that returns where the `errno` of a thread is. */
const LINUX = {
  // glibc, then musl.
  names: [
    "libc.so.6",
    `libc.musl-${{ x64: "x86_64", arm64: "aarch64" }[process.arch as string]}.so.1`,
  ],
  errnoLocation: "__errno_location",
  watch: INOTIFY,
};
const MACOS = { names: ["libSystem.B.dylib"], errnoLocation: "__error", watch: null };

/**
 * Returns the file system of Bun.
 *
 * @throws {SetupFailure} If `bun:ffi` cannot call `flock` here.
 */
export function bunWithFfi(): FileSystem {
  return nodeFileSystem(loaded ??= loadCalls());
}

let loaded: SystemCalls | null = null;

function loadCalls(): SystemCalls {
  try {
    // Not imported: no other runtime has it.
    const ffi = process.getBuiltinModule("bun:ffi") as unknown as BunFfi | undefined;
    if (ffi === undefined) throw new Error("there is no such module");
    return open(ffi, process.platform === "darwin" ? MACOS : LINUX);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : cause;
    throw new SetupFailure(
      `on Bun it locks files with \`bun:ffi\`, which does not work here (${why}): choose another strategy`,
      { cause },
    );
  }
}

function open(
  { dlopen, read }: BunFfi,
  { names, errnoLocation, watch }: typeof LINUX | typeof MACOS,
): SystemCalls {
  const prototypes = {
    flock: { args: ["i32", "i32"], returns: "i32" },
    [errnoLocation]: { args: [], returns: "ptr" },
    ...watch,
  };
  const functions = firstOf(names, (name) => dlopen(name, prototypes).symbols) as
    & Record<string, (...args: number[]) => number>
    & InotifyFunctions;
  const flock = functions["flock"]!;
  const errno = functions[errnoLocation]!(); // It stays where it is as long as the thread lives.
  return {
    // Read at once: the next call of the system may change it.
    flock: (fd, operation) => flock(fd, operation) === 0 ? 0 : read.i32(errno, 0),
    inotify: watch === null ? null : new BunInotify(functions),
  };
}

/** The first result that is no error; throws the first error if there is none. */
export function firstOf<T, U>(values: readonly T[], find: (value: T) => U): U {
  const errors: unknown[] = [];
  for (const value of values) {
    try {
      return find(value);
    } catch (error) {
      errors.push(error);
    }
  }
  throw errors[0];
}
