/**
 * A process in which a caller waits for the end of a lease by `maxHoldMs`, and nothing else goes on.
 *
 * @module
 */
import { acquireAll, MemoryLock } from "../../mod.ts";
import { print, scriptArgument } from "../runtime/processes.ts";

const { isSet } = scriptArgument<{ isSet: boolean }>();

// Not at the top level: there Deno would wait for background timers, too.
async function wait(): Promise<void> {
  const locks = new MemoryLock();
  if (isSet) await acquireAll(locks, ["n"], { maxHoldMs: 20 });
  else await locks.acquire("n", { maxHoldMs: 20 });
  await locks.acquire("n");
  print("granted\n");
}

wait();
