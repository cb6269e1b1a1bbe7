/**
 * inotify in Bun, whose event loop reads no descriptor of another kind without keeping the process alive: the
 * system sends a signal when there are events.
 *
 * @module
 */
import { constants } from "node:os";
import process from "node:process";
import { isMainThread } from "node:worker_threads";
import { CLOSE_ON_EXEC, type Inotify, type InotifyListener, NONBLOCKING } from "./inotify.ts";

/** By default it is ignored: so it does no harm when nobody listens any more, as SIGIO would. */
const SIGNAL = "SIGURG";
const [F_SETFL, F_SETOWN, F_SETSIG] = [4, 8, 10];
const O_ASYNC = 0o20000;
/** One event is at most 272 bytes. */
const BUFFER_BYTES = 65_536;

/** Functions of the C library. */
export interface InotifyFunctions {
  inotify_init1(flags: number): number;
  inotify_add_watch(fd: number, path: Uint8Array, mask: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  read(fd: number, bytes: Uint8Array, length: number): number;
  close(fd: number): number;
}

/** inotify of Linux, by functions that `bun:ffi` calls. All its descriptors share a listener of the signal. */
export class BunInotify implements Inotify {
  readonly #c: InotifyFunctions;
  readonly #opened = new Map<number, InotifyListener>();
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  readonly #onSignal = () => {
    for (const fd of this.#opened.keys()) this.#read(fd);
  };

  constructor(functions: InotifyFunctions) {
    this.#c = functions;
  }

  addWatch(fd: number, path: string, mask: number): number {
    return this.#c.inotify_add_watch(fd, new TextEncoder().encode(`${path}\0`), mask);
  }

  open(listener: InotifyListener): { readonly fd: number; close(): void } {
    if (!isMainThread) throw new Error("only the main thread gets signals");
    const fd = this.#c.inotify_init1(NONBLOCKING | CLOSE_ON_EXEC);
    if (fd === -1) throw new Error("no more descriptors");
    if (this.#opened.size === 0) process.on(SIGNAL, this.#onSignal);
    this.#opened.set(fd, listener);
    const isAsked = [
      this.#c.fcntl(fd, F_SETOWN, process.pid),
      this.#c.fcntl(fd, F_SETSIG, constants.signals[SIGNAL]),
      this.#c.fcntl(fd, F_SETFL, NONBLOCKING | O_ASYNC),
    ].every((result) => result !== -1);
    if (isAsked) return { fd, close: () => this.#close(fd) };
    this.#close(fd);
    throw new Error("the system does not send signals");
  }

  #close(fd: number): void {
    this.#opened.delete(fd);
    this.#c.close(fd);
    if (this.#opened.size === 0) process.off(SIGNAL, this.#onSignal);
  }

  /** Reads all, as several events may have one signal. A listener may close the descriptor. */
  #read(fd: number): void {
    for (let listener; (listener = this.#opened.get(fd)) !== undefined;) {
      const length = this.#c.read(fd, this.#buffer, BUFFER_BYTES);
      if (length <= 0) return;
      listener.onEvents(this.#buffer.subarray(0, length));
    }
  }
}
