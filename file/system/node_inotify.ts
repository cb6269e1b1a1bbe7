/**
 * inotify in Node: its event loop reads the descriptor as it reads a pipe.
 *
 * @module
 */
import { Socket } from "node:net";
import { CLOSE_ON_EXEC, type Inotify, NONBLOCKING } from "./inotify.ts";

/** Defines a function of the C library, by its prototype. */
export type Define = (
  prototype: string,
) => (...args: readonly (number | string | Int32Array)[]) => number;

/** Returns inotify of Linux, by functions that koffi calls. */
export function nodeInotify(define: Define): Inotify {
  const inotifyInit1 = define("int inotify_init1(int flags)");
  const addWatch = define("int inotify_add_watch(int fd, const char *path, uint32_t mask)");
  const pipe2 = define("int pipe2(int *ends, int flags)");
  const dup3 = define("int dup3(int from, int to, int flags)");
  const close = define("int close(int fd)");
  return {
    addWatch,
    open(listener) {
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
        socket.on("data", (bytes) => listener.onEvents(bytes as Uint8Array)); // text needs an encoding
        socket.on("error", () => listener.onEnd());
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
