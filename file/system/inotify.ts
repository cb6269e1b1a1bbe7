/**
 * The watch of a directory by inotify, for Node and Bun: their own watch reports no close of a file. How the
 * event loop learns that the descriptor can be read differs, so `node.ts` and `bun.ts` each open it in their own way.
 *
 * @module
 */
import type { DirectoryListener } from "./port.ts";

/** inotify as a runtime calls it. */
export interface Inotify {
  /**
   * Opens a descriptor and reads it, without a thread or keeping the process alive. `onEnd`: it cannot be read any
   * more, and is closed. Throws if the system refuses, for instance at its limit of descriptors.
   */
  open(
    onEvents: (bytes: Uint8Array) => void,
    onEnd: () => void,
  ): { readonly fd: number; close(): void };
  /** Returns -1 if the system refuses. */
  addWatch(fd: number, path: string, mask: number): number;
}

/** Flags of a new descriptor. They are equal on all processors that Node and Bun support. */
export const NONBLOCKING = 0o4000;
export const CLOSE_ON_EXEC = 0o2000000;

/** After these a lock may be free. To read a file gives none of them, nor does a new holder's write. */
const [CLOSE_WRITE, MOVED_FROM, MOVED_TO, DELETE] = [0x8, 0x40, 0x80, 0x200];
/** The directory was renamed; events are missing; the directory was removed. */
const [MOVE_SELF, OVERFLOW, IGNORED] = [0x800, 0x4000, 0x8000];
const MASK = CLOSE_WRITE | MOVED_FROM | MOVED_TO | DELETE | MOVE_SELF;
const ANY = MOVE_SELF | OVERFLOW | IGNORED;
/** An event: four numbers of 32 bits, of which the last is the length of the name that follows. */
const HEADER_BYTES = 16;
const TEXT = new TextDecoder();

/** Watches a directory. Returns a function that ends the watch; `null` if the system refuses. */
export function watchBy(
  inotify: Inotify,
  dir: string,
  listener: DirectoryListener,
): (() => void) | null {
  let isOpen = true;
  const onEvents = (bytes: Uint8Array) => {
    for (const { mask, name } of eventsIn(bytes)) {
      if (!isOpen) return;
      if ((mask & ANY) !== 0) listener.onAnyChange();
      else listener.onChange(name);
    }
  };
  const onEnd = () => {
    if (isOpen) listener.onEnd();
    isOpen = false;
  };
  try {
    const { fd, close } = inotify.open(onEvents, onEnd);
    const end = () => {
      if (isOpen) close();
      isOpen = false;
    };
    if (inotify.addWatch(fd, dir, MASK) !== -1) return end;
    end();
    return null;
  } catch {
    return null;
  }
}

function* eventsIn(bytes: Uint8Array): Iterable<{ mask: number; name: string }> {
  const numbers = new Uint32Array(new Uint8Array(bytes).buffer); // in the byte order of the machine
  for (let at = 0; at < bytes.length;) {
    const [mask = 0, length = 0] = [numbers[at / 4 + 1], numbers[at / 4 + 3]];
    const start = at + HEADER_BYTES;
    const end = bytes.indexOf(0, start); // The name is filled up with zeros.
    yield { mask, name: TEXT.decode(bytes.subarray(start, length > 0 ? end : start)) };
    at = start + length;
  }
}
