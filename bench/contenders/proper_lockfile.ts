/**
 * The package `proper-lockfile` as a contender.
 *
 * @module
 */
import lockfile from "proper-lockfile";
import type { Contender } from "../library/contender.ts";

/** It makes a directory, and polls while that exists. */
export const properLockfile: Contender = {
  name: "proper-lockfile",
  client: "files",
  package: "proper-lockfile",
  has: { fencingToken: false, queue: false, renewal: true },
  sends: [],
  open(dir, { pollMs }) {
    const retries = { forever: true, minTimeout: pollMs, maxTimeout: pollMs, factor: 1 };
    const options = { realpath: false, retries, onCompromised: () => {} };
    return Promise.resolve({
      async acquire(name) {
        const release = await lockfile.lock(`${dir}/${fileOf(name)}`, options);
        return { release };
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  },
};

/** The name of a lock as the name of a file. */
export function fileOf(name: string): string {
  return encodeURIComponent(name);
}
