import {
  duration,
  flag,
  type OptionTable,
  type ReadOptions,
  readTable,
  text,
} from "../core/contract/options.ts";
import { STRATEGY_OPTIONS, type StrategyOptions } from "../core/lease/lifetime.ts";

/** Options of {@linkcode FileLock}. */
export interface FileLockOptions extends StrategyOptions {
  /**
   * The directory of the lock files, created if it does not exist. Processes exclude each other only if they use the
   * same directory, on a local file system (not NFS or SMB). A relative path counts from the working directory in
   * which the `FileLock` is created.
   *
   * The default is the user's own: `holdfast` in `$XDG_RUNTIME_DIR` if that belongs to the user, else
   * `holdfast-<user id>` in the temporary directory. In Deno it needs `--allow-env` and `--allow-sys=uid`. It may
   * differ between a shell, a service and a cron job, so set `dir` when these share a lock.
   *
   * A user that may replace a lock file can break its lock. So a directory is refused with a `LockSetupError` if it
   * is a link, if neither this user nor root owns it, if others may write to it, or if others may replace it because
   * they may write to a directory above it (one with the sticky bit, as `/tmp`, is allowed).
   *
   * @default a directory of the user's own
   */
  dir?: string | undefined;
  /**
   * Whether other users may write to `dir`. It must exist and is then not checked, for instance `/run/lock/my-app`
   * with mode 2770 and a group of those users. All of them can lock, and each can break the locks of the others, but
   * none can make the process of another one write to a file elsewhere. New files get the permissions that the
   * directory has for reading and writing: 660 in this example. Needs `dir`.
   *
   * @default {false}
   */
  sharedDir?: boolean | undefined;
  /**
   * Whether lock files stay when nobody uses them. Otherwise an instance deletes those that it has
   * released, a second later or at its disposal, and those that killed processes left.
   *
   * Set it in each process if another program, for instance `flock(1)`, locks the same files: such a
   * program does not notice that its file was deleted, and would hold a lock that excludes nobody.
   *
   * @default {false}
   */
  keepFiles?: boolean | undefined;
  /**
   * How often, in ms, a waiter looks at first for what no watch reports. While nobody writes to the file it
   * looks ever more rarely, in the end once a second, or at this interval if it is longer.
   *
   * - **There is no watch** in Deno 2.8, in worker threads of Bun, on other systems than Linux, and if the
   *   system refuses it, for instance because its limit of watches is reached.
   * - **While another program has locked the file**, such as `flock(1)`, its release is not reported.
   *
   * Otherwise the watch reports releases and killed holders. A waiter looks every few seconds besides.
   *
   * @default {10}
   */
  pollIntervalMs?: number | undefined;
}

export const FILE_LOCK_OPTIONS = {
  ...STRATEGY_OPTIONS,
  dir: text({ min: 1 }),
  sharedDir: flag(false),
  keepFiles: flag(false),
  pollIntervalMs: duration({ otherwise: 10 }),
} satisfies OptionTable<FileLockOptions>;

/** Checks the options and fills in the defaults. Throws as the constructor of `FileLock` does. */
export function readOptions(
  options: FileLockOptions,
): ReadOptions<FileLockOptions, typeof FILE_LOCK_OPTIONS> {
  const read = readTable("new FileLock()", options, FILE_LOCK_OPTIONS);
  if (read.sharedDir && read.dir === undefined) {
    throw new TypeError("Cannot use 'sharedDir' without 'dir': each user has another default");
  }
  return read;
}
