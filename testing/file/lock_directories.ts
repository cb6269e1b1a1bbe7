/**
 * Directories for tests of `FileLock`.
 *
 * @module
 */
import { chmod, rm } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";

/** A directory that disposal removes. */
export interface TemporaryDirectory extends AsyncDisposable {
  readonly dir: string;
}

/** Makes a directory; private by default. */
export async function temporary(mode: number = 0o700): Promise<TemporaryDirectory> {
  const dir = await makeTempDirectory();
  await chmod(dir, mode);
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}
