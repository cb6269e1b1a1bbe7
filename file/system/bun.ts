import { constants } from "node:os";
import process from "node:process";
import { isMainThread } from "node:worker_threads";
import { SetupFailure } from "../failures.ts";
import { CLOSE_ON_EXEC, type Inotify, NONBLOCKING } from "./inotify.ts";
import { nodeFileSystem } from "./node_fs.ts";
import type { FileSystem } from "./port.ts";

/** Functions of the C library of Linux, as `bunInotify()` calls them. */
const INOTIFY: Readonly<Record<keyof Parameters<typeof bunInotify>[0], object>> = {
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

/** The file system of Bun, which calls `flock` by its own `bun:ffi`. Throws a `SetupFailure` if it cannot. */
export function bunWithFfi(): FileSystem {
  try {
    // Not imported: no other runtime has it.
    const ffi = process.getBuiltinModule("bun:ffi") as unknown as {
      dlopen(library: string, prototypes: object): { symbols: unknown };
      read: { i32(pointer: number, offset: number): number };
    } | undefined;
    if (ffi === undefined) throw new Error("there is no such module");
    const { names, errnoLocation, watch } = process.platform === "darwin" ? MACOS : LINUX;
    const prototypes = {
      flock: { args: ["i32", "i32"], returns: "i32" },
      [errnoLocation]: { args: [], returns: "ptr" },
      ...watch,
    };
    const functions = firstOf(names, (name) => ffi.dlopen(name, prototypes).symbols) as
      & Record<string, (...args: number[]) => number>
      & Parameters<typeof bunInotify>[0];
    const flock = functions["flock"]!;
    const errno = functions[errnoLocation]!(); // It stays where it is as long as the thread lives.
    return nodeFileSystem({
      // Read at once: the next call of the system may change it.
      flock: (fd, operation) => flock(fd, operation) === 0 ? 0 : ffi.read.i32(errno, 0),
      inotify: watch === null ? null : bunInotify(functions),
    });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : cause;
    throw new SetupFailure(
      `on Bun it locks files with \`bun:ffi\`, which does not work here (${why}): choose another strategy`,
      { cause },
    );
  }
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

/** By default it is ignored: so it does no harm when nobody listens any more, as SIGIO would. */
const SIGNAL = "SIGURG";
const [F_SETFL, F_SETOWN, F_SETSIG] = [4, 8, 10];
const O_ASYNC = 0o20000;
/** One event is at most 272 bytes. */
const BUFFER_BYTES = 65_536;

/**
 * inotify in Bun, whose event loop reads no descriptor of another kind without keeping the process alive: the system
 * sends a signal when there are events. All descriptors share a listener of it.
 */
export function bunInotify(library: {
  inotify_init1(flags: number): number;
  inotify_add_watch(fd: number, path: Uint8Array, mask: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  read(fd: number, bytes: Uint8Array, length: number): number;
  close(fd: number): number;
}): Inotify {
  const opened = new Map<number, (bytes: Uint8Array) => void>();
  const buffer = new Uint8Array(BUFFER_BYTES);
  /** Reads all, as several events may have one signal. A listener may close the descriptor. */
  const read = (fd: number) => {
    for (let onEvents; (onEvents = opened.get(fd)) !== undefined;) {
      const length = library.read(fd, buffer, BUFFER_BYTES);
      if (length <= 0) return;
      onEvents(buffer.subarray(0, length));
    }
  };
  const onSignal = () => {
    for (const fd of opened.keys()) read(fd);
  };
  const close = (fd: number) => {
    opened.delete(fd);
    library.close(fd);
    if (opened.size === 0) process.off(SIGNAL, onSignal);
  };
  return {
    addWatch(fd, path, mask) {
      return library.inotify_add_watch(fd, new TextEncoder().encode(`${path}\0`), mask);
    },
    open(onEvents) {
      if (!isMainThread) throw new Error("only the main thread gets signals");
      const fd = library.inotify_init1(NONBLOCKING | CLOSE_ON_EXEC);
      if (fd === -1) throw new Error("no more descriptors");
      if (opened.size === 0) process.on(SIGNAL, onSignal);
      opened.set(fd, onEvents);
      const isAsked = [
        library.fcntl(fd, F_SETOWN, process.pid),
        library.fcntl(fd, F_SETSIG, constants.signals[SIGNAL]),
        library.fcntl(fd, F_SETFL, NONBLOCKING | O_ASYNC),
      ].every((result) => result !== -1);
      if (isAsked) return { fd, close: () => close(fd) };
      close(fd);
      throw new Error("the system does not send signals");
    },
  };
}
