import { Socket } from "node:net";
import process from "node:process";
import { loadPackage, PackageNotFound } from "../../packages/load_package.ts";
import { SetupFailure } from "../failures.ts";
import { CLOSE_ON_EXEC, type Inotify, NONBLOCKING } from "./inotify.ts";
import { nodeFileSystem } from "./node_fs.ts";
import type { FileSystem } from "./port.ts";

/** The file system of Node, for which koffi calls `flock`. Throws a `SetupFailure` if koffi cannot. */
export function nodeWithKoffi(): FileSystem {
  try {
    const koffi = loadPackage<{
      /** `null` is the process: it has the C library of Node itself, glibc, musl or that of macOS. */
      load(path: null): Parameters<typeof nodeInotify>[0];
      /** The `errno` of the last call in this thread. */
      errno(): number;
    }>("koffi");
    const library = koffi.load(null);
    const flock = library.func("int flock(int fd, int operation)");
    return nodeFileSystem({
      flock: (fd, operation) => flock(fd, operation) === 0 ? 0 : koffi.errno(),
      inotify: process.platform === "linux" ? nodeInotify(library) : null,
    });
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

/** inotify in Node, by functions that koffi calls: the event loop reads the descriptor as it reads a pipe. */
export function nodeInotify(library: {
  /** Defines a function of the C library, by its prototype. */
  func(prototype: string): (...args: readonly (number | string | Int32Array)[]) => number;
}): Inotify {
  const inotifyInit1 = library.func("int inotify_init1(int flags)");
  const addWatch = library.func("int inotify_add_watch(int fd, const char *path, uint32_t mask)");
  const pipe2 = library.func("int pipe2(int *ends, int flags)");
  const dup3 = library.func("int dup3(int from, int to, int flags)");
  const close = library.func("int close(int fd)");
  return {
    addWatch,
    open(onEvents, onEnd) {
      const flags = NONBLOCKING | CLOSE_ON_EXEC;
      const ends = new Int32Array([-1, -1]);
      const inotify = inotifyInit1(flags);
      try {
        if (inotify === -1 || pipe2(ends, flags) === -1) throw new Error("no more descriptors");
        const [fd = -1, writingEnd = -1] = ends;
        // A socket of Node takes a pipe, but no inotify. The event loop meets the descriptor only after this
        // turn: until then it can be replaced.
        const socket = new Socket({ fd, readable: true, writable: false });
        dup3(inotify, fd, CLOSE_ON_EXEC);
        close(writingEnd);
        socket.on("data", (bytes) => onEvents(bytes as Uint8Array)); // text needs an encoding
        socket.on("error", onEnd);
        socket.unref();
        return { fd, close: () => void socket.destroy() };
      } catch (error) {
        for (const end of ends) close(end);
        throw error;
      } finally {
        close(inotify);
      }
    },
  };
}
