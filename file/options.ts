/**
 * The options of `FileLock`, their defaults and checks.
 *
 * @module
 */
import { STRATEGY_NAMES, type StrategyOptions } from "../core/lease/lifetime.ts";
import { checkNames, type OptionNames } from "../core/contract/option_names.ts";
import { checkDuration, checkString, describeType } from "../core/contract/validate.ts";

/** Options of {@linkcode FileLock}. */
export interface FileLockOptions extends StrategyOptions {
  /**
   * The directory of the lock files, created if it does not exist. Processes exclude each other
   * only if they use the same directory, on a local file system (not NFS or SMB). A relative path
   * counts from the working directory in which the `FileLock` is created.
   *
   * The default is the user's own: `holdfast` in `$XDG_RUNTIME_DIR` if that belongs to the user, else
   * `holdfast-<user id>` in the temporary directory. In Deno it needs `--allow-env` and `--allow-sys=uid`. It
   * may differ between a shell, a service and a cron job, so set `dir` when these share a lock.
   *
   * A user that may replace a lock file can break its lock. So a directory is refused with a
   * `LockSetupError` if it is a link, if neither this user nor root owns it, if others may write to
   * it, or if others may replace it because they may write to a directory above it (one with the
   * sticky bit, as `/tmp`, is allowed).
   *
   * @default a directory of the user's own
   */
  dir?: string | undefined;
  /**
   * Whether other users may write to `dir`. It must exist and is then not checked, for instance
   * `/run/lock/my-app` with mode 2770 and a group of those users. All of them can lock, and each can
   * break the locks of the others, but none can make the process of another one write to a file
   * elsewhere. New files get the permissions that the directory has for reading and writing: 660 in
   * this example. Needs `dir`.
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
   * How often, in ms, a waiter looks for what no watch reports: on Node and Bun a killed holder, without a
   * watch a release too.
   *
   * - **On Node and Bun** the watch of the directory reports releases only. A process that waits for more names
   *   than this number of ms looks at each less often, but about once a second at least.
   * - **There is no watch** in Deno 2.8, on other systems than Linux, and if the system refuses it, for
   *   instance because its limit of watches is reached.
   * - **While another program has locked the file**, such as `flock(1)`, its release is not reported either.
   *
   * In Deno 2.9 the watch also reports a killed holder: a waiter looks about once a second besides.
   *
   * @default {10}
   */
  pollIntervalMs?: number | undefined;
}

const NAMES: OptionNames & Record<keyof FileLockOptions, true> = {
  ...STRATEGY_NAMES,
  dir: true,
  sharedDir: true,
  keepFiles: true,
  pollIntervalMs: true,
};

/** Default of {@linkcode FileLockOptions.pollIntervalMs}, in ms. */
export const DEFAULT_POLL_INTERVAL_MS = 10;

/** The options, complete and checked, except those that every strategy takes. */
export type CheckedOptions =
  & {
    [Key in Exclude<keyof FileLockOptions, "dir" | keyof StrategyOptions>]-?: NonNullable<
      FileLockOptions[Key]
    >;
  }
  & { dir: string | undefined };

/**
 * Checks the options and adds the defaults.
 *
 * @throws {TypeError} If an option has a wrong type or is unknown, or if `sharedDir` comes without `dir`.
 * @throws {RangeError} If an option is out of range.
 */
export function checkOptions(options: FileLockOptions): CheckedOptions {
  checkNames("new FileLock()", options, NAMES);
  const {
    dir,
    sharedDir = false,
    keepFiles = false,
    pollIntervalMs = DEFAULT_POLL_INTERVAL_MS,
  } = options;
  if (dir !== undefined) checkString("dir", dir);
  checkBoolean("sharedDir", sharedDir);
  checkBoolean("keepFiles", keepFiles);
  checkDuration("pollIntervalMs", pollIntervalMs);
  if (sharedDir && dir === undefined) {
    throw new TypeError("Cannot use 'sharedDir' without 'dir': each user has another default");
  }
  return { dir, sharedDir, keepFiles, pollIntervalMs };
}

function checkBoolean(option: string, value: unknown): void {
  if (typeof value === "boolean") return;
  throw new TypeError(
    `Cannot use '${option}': it must be a boolean, but it is ${describeType(value)}`,
  );
}
