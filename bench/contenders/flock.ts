/**
 * The program `flock(1)` as a contender: a process for each holder and each waiter.
 *
 * @module
 */
import { linesOf } from "../../testing/runtime/lines.ts";
import { spawnProcess } from "../../testing/runtime/processes.ts";
import type { Contender } from "../library/contender.ts";
import { fileOf } from "./proper_lockfile.ts";

/** Says that it holds the lock, and keeps it until its input ends. */
const HOLD = "echo held; read -r line";

/** It ends with its parent: then its input ends too. */
export const flock: Contender = {
  name: "flock(1)",
  client: "files",
  package: null,
  has: { fencingToken: false, queue: false, renewal: false },
  sends: [],
  open(dir) {
    return Promise.resolve({
      async acquire(name) {
        const command = ["flock", `${dir}/${fileOf(name)}`, "sh", "-c", HOLD];
        const child = spawnProcess(command, { hasInput: true, stdout: "pipe" });
        if (await linesOf(child.stdout!).next() === null) throw new Error("Cannot run flock(1)");
        return {
          async release() {
            await child.endInput();
            await child.ended;
          },
        };
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  },
};
