/**
 * A process that takes a lock or a set of locks, for which it may have to wait, and then has nothing else to do.
 *
 * @module
 */
import { acquireAll } from "../../core/sets/acquire_all.ts";
import { FileLock } from "../../file/mod.ts";
import { print, scriptArgument } from "../runtime/processes.ts";

const { dir, isReleased, isSet = false } = scriptArgument<
  { dir: string; isReleased: boolean; isSet?: boolean }
>();
const options = { maxHoldMs: 600_000, onWait: () => print("waiting\n") };
const locks = new FileLock({ dir });
const held = isSet
  ? await acquireAll(locks, ["n", "o"], options)
  : await locks.acquire("n", options);
if (isReleased) await held.release();
print(isReleased ? "released\n" : "held\n");
