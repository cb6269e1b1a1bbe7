/**
 * Temporary files.
 *
 * @module
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";

/** Makes a temporary directory; in the system's own one by default. */
export function makeTempDirectory(base: string = tmpdir()): Promise<string> {
  return mkdtemp(`${base}/holdfast-`);
}
