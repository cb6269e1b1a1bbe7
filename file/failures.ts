import { constants } from "node:os";
import { type LockError, LockSetupError, LockUnavailableError } from "../core/contract/errors.ts";

/** A reason why a lock cannot work as it is set up. Its message also says what to do. */
export class SetupFailure extends Error {}

/** Errors of the file system that stay until somebody changes the set-up. */
const SETUP_CODES = new Set([
  ...["EACCES", "EPERM", "EROFS", "ENOTDIR", "EISDIR", "EEXIST", "ELOOP", "ENAMETOOLONG"],
  ...["EINVAL", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK"],
]);

const REFUSALS = new Set(["EACCES", "EPERM", "EROFS"]);
/** The file system has no locks. ENOLCK is the answer of Linux for NFS without a lock service. */
const NO_LOCKS = new Set(["ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK"]);

/** The code of an error of the system, such as `"EIO"`, by its number. */
export function codeOfNumber(errno: number): string | undefined {
  return Object.entries(constants.errno).find(([, number]) => number === errno)?.[0];
}

/** The code of an error of the file system, such as `"ENOENT"`. */
export function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | null)?.code;
}

/**
 * Whether the runtime itself denies the permission: Deno by an error without a code, whose class is
 * missing in other runtimes; Node with `--permission` by a code of its own.
 */
export function isForbidden(error: unknown): boolean {
  return (error as Error | null)?.name === "NotCapable" || codeOf(error) === "ERR_ACCESS_DENIED";
}

function isSetup(cause: unknown): boolean {
  if (cause instanceof SetupFailure) return true;
  // A missing API of the runtime is a ReferenceError or a TypeError.
  if (cause instanceof ReferenceError || cause instanceof TypeError) return true;
  return isForbidden(cause) || SETUP_CODES.has(codeOf(cause) ?? "");
}

function remedyFor(code: string): string {
  if (REFUSALS.has(code)) return ": let this user write there";
  return NO_LOCKS.has(code) ? ": choose a 'dir' on a local file system" : "";
}

/** A call's error: a `LockSetupError` if only a change of the set-up helps, else a `LockUnavailableError`. */
export function toLockError(error: unknown, name: string, path?: string): LockError {
  const why = error instanceof Error ? error.message : String(error);
  const remedy = remedyFor(codeOf(error) ?? "");
  const at = path === undefined ? "" : ` at ${JSON.stringify(path)}`;
  const message = `Cannot use the file of lock ${JSON.stringify(name)}${at}: ${why}${remedy}`;
  const ErrorClass = isSetup(error) ? LockSetupError : LockUnavailableError;
  // A failure of ours says no more than the message; one of the system has a code.
  const cause = error instanceof SetupFailure ? error.cause : error;
  return new ErrorClass(message, name, cause === undefined ? {} : { cause });
}
