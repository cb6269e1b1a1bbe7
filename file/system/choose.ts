import process from "node:process";
import { LockSetupError } from "../../core/contract/errors.ts";
import { SetupFailure } from "../failures.ts";
import { bunWithFfi } from "./bun.ts";
import { denoFileSystem } from "./deno.ts";
import { nodeWithKoffi } from "./node.ts";
import type { FileSystem } from "./port.ts";

/** That of Node or Bun, made once: each definition of a function of the C library stays in memory. */
let loaded: FileSystem | null = null;

/**
 * Returns the file system of a runtime, with locks by `flock`, so that processes of all runtimes exclude each other.
 * Throws a {@linkcode LockSetupError}, which says what to install, if the runtime cannot lock files here.
 */
export function chooseFileSystem(
  { versions, platform }: {
    /** The versions of the runtime and its parts. */
    readonly versions: Readonly<Record<string, string | undefined>>;
    readonly platform: string;
  } = process,
): FileSystem {
  try {
    const { deno, bun } = versions;
    if (platform === "win32") {
      throw new SetupFailure(
        "on Windows no process can read a file that another one has locked: use another strategy",
      );
    }
    if (deno !== undefined) return denoFileSystem(deno);
    if (bun !== undefined && /^(0|1\.[0-2])\./.test(bun)) {
      throw new SetupFailure(`it needs Bun 1.3 or later; this is ${bun}`);
    }
    return loaded ??= bun === undefined ? nodeWithKoffi() : bunWithFfi();
  } catch (error) {
    if (!(error instanceof SetupFailure)) throw error;
    const { message, cause } = error; // the failure itself says no more than the message
    const options = cause === undefined ? {} : { cause };
    throw new LockSetupError(`Cannot create a FileLock: ${message}`, undefined, options);
  }
}
