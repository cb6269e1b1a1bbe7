/**
 * A process that takes a lock, for which it may have to wait, and then has nothing else to do.
 *
 * @module
 */
import { FileLock } from "../../file/mod.ts";
import { print, scriptArgument } from "../runtime/processes.ts";

const { dir, isReleased } = scriptArgument<{ dir: string; isReleased: boolean }>();
const onWait = () => print("waiting\n");
const lease = await new FileLock({ dir }).acquire("n", { maxHoldMs: 600_000, onWait });
if (isReleased) await lease.release();
print(isReleased ? "released\n" : "held\n");
