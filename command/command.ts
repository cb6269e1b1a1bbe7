import type { DistributedLock } from "../core/contract/distributed_lock.ts";

/** Exit codes. 64, 69, 75 and 78 are those of `sysexits.h`. */
export const EXIT = {
  ok: 0,
  failed: 1,
  notChecked: 2,
  usage: 64,
  unavailable: 69,
  busy: 75,
  lost: 76,
  setup: 78,
} as const;

/** What a command needs of the program. */
export interface CommandContext {
  /** The URL of `--at`, or that of the environment. */
  url(at: string | undefined): string;
  /** Opens the locks at a URL, and closes them after the work. The default label: the URL's, or host and process. */
  withLocks<T>(
    url: string,
    work: (locks: DistributedLock) => Promise<T>,
    label?: string,
  ): Promise<T>;
  /** Prints a line for a person. */
  say(text: string): void;
  /** Prints a result. */
  print(text: string): void;
}
