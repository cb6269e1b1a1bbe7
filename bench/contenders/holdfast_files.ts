/**
 * This library's file lock as a contender.
 *
 * @module
 */
import { FileLock } from "../../file/mod.ts";
import type { Contender } from "../library/contender.ts";

/** This library on files. */
export const holdfastFiles: Contender = {
  name: "holdfast",
  client: "files",
  package: "@holdfast/lock",
  has: { fencingToken: true, queue: false, renewal: true },
  sends: [],
  open(dir) {
    const lock = new FileLock({ dir });
    return Promise.resolve({
      acquire: (name) => lock.acquire(name),
      [Symbol.asyncDispose]: () => lock[Symbol.asyncDispose](),
    });
  },
};
