/** `runCoordinator()` on locks that their process keeps while it is disposed of. */
import { assertEquals } from "@std/assert";
import { setImmediate as turn } from "node:timers/promises";
import { runCoordinator } from "../../adapters/node_cron.ts";
import { FileLock } from "../../file/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { CONDITION_BOUND_MS, LONG_TTL_MS } from "../../testing/time.ts";

Deno.test("runCoordinator() keeps the lock of a run that goes on when the locks are disposed of", async () => {
  await using temp = await temporary();
  await using others = new FileLock({ dir: temp.dir });
  const locks = new FileLock({ dir: temp.dir, disposeTimeoutMs: 4 * CONDITION_BOUND_MS });
  const coordinator = runCoordinator(locks, { keepMs: LONG_TTL_MS });
  const time = new Date().toISOString();
  assertEquals(await coordinator.shouldRun(`job:${time}`, LONG_TTL_MS), true);
  const disposed = locks[Symbol.asyncDispose]();
  for (let i = 0; i < 5; i++) await turn();
  assertEquals(await others.tryAcquire(`job@${time}`), null);
  coordinator.onComplete(`job:${time}`);
  await within("disposal ends when the run does", disposed);
});
