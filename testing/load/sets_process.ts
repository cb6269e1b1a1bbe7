/**
 * The process behind {@linkcode startSets}.
 *
 * @module
 */
// Paces a workload: a set is held for a random time.
import {
  acquireAll,
  type DistributedLock,
  LeaseLostError,
  type LeaseSet,
  LockTimeoutError,
  LockUnavailableError,
  tryAcquireAll,
} from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { randomOf } from "../processes/random.ts";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import { pause } from "../servers/wait.ts";
import type { SetReport, SetsOptions } from "./sets.ts";

/** Draws 2 to 5 names, in any order; some are shared where that is possible. */
function drawEntries(lock: DistributedLock, names: readonly string[], random: () => number) {
  const drawn = names.toSorted(() => random() - 0.5).slice(0, 2 + Math.floor(random() * 4));
  const { shared } = lock.capabilities;
  return drawn.map((name) => ({
    name,
    ...shared && random() < 0.3 && { mode: "shared" as const },
  }));
}

/** How a call may end, other than with a set. */
function reportOf(error: unknown, signal: AbortSignal | undefined): SetReport {
  if (signal?.aborted && error === signal.reason) return "aborted";
  if (error instanceof LockTimeoutError) return "timeout";
  if (error instanceof LeaseLostError) return "lost";
  if (error instanceof LockUnavailableError) return "unavailable";
  throw error;
}

async function call(
  lock: DistributedLock,
  { names }: SetsOptions,
  random: () => number,
): Promise<SetReport> {
  const entries = drawEntries(lock, names, random);
  const kind = random();
  const signal = kind < 0.1 ? AbortSignal.timeout(random() * 200) : undefined;
  const options = { signal, waitMs: kind > 0.9 ? Math.floor(random() * 100) : undefined };
  let set: LeaseSet | null;
  try {
    const method = kind > 0.2 && kind < 0.3 ? tryAcquireAll : acquireAll;
    set = await method(lock, entries, options);
  } catch (error) {
    return reportOf(error, signal);
  }
  if (set === null) return "refused";
  if (random() < 0.3) await pause(random() * 5);
  return await set.release() ? "held" : "lost";
}

async function main(options: SetsOptions): Promise<void> {
  await using client = await openLock(options.spec, () => {});
  const random = randomOf(options.seed);
  let isDone = false;
  const input = inputEnd().then(() => isDone = true);
  const lanes = Array.from({ length: options.lanes }, async () => {
    while (!isDone) {
      const report = await call(client.lock, options, random);
      print(`${JSON.stringify(report)}\n`);
      if (report === "unavailable") await pause(20); // the server is out of reach
    }
  });
  await Promise.all([input, ...lanes]);
}

if (import.meta.main) await main(scriptArgument());
