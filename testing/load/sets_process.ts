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

function call(
  lock: DistributedLock,
  { names }: SetsOptions,
  random: () => number,
): Promise<SetReport> {
  const entries = drawEntries(lock, names, random);
  const kind = random();
  const stop = new AbortController();
  const signal = kind < 0.1
    ? AbortSignal.any([stop.signal, AbortSignal.timeout(random() * 200)])
    : undefined;
  const first = entries.map(({ name }) => name).sort()[0];
  const options = {
    signal,
    waitMs: kind > 0.9 ? Math.floor(random() * 100) : undefined,
    onWait: (name: string) => name === first || stop.abort(), // else few fail that hold a lock by then
  };
  const method = kind > 0.2 && kind < 0.3 ? tryAcquireAll : acquireAll;
  return hold(method(lock, entries, options), random() < 0.3 ? random() * 5 : 0, signal);
}

/** Holds a set for `ms`, once it is acquired. */
async function hold(
  acquired: Promise<LeaseSet | null>,
  ms: number,
  signal?: AbortSignal,
): Promise<SetReport> {
  let set: LeaseSet | null;
  try {
    set = await acquired;
  } catch (error) {
    return reportOf(error, signal);
  }
  if (set === null) return "refused";
  if (ms > 0) await pause(ms);
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
  // A call may have kept a lock, which the disposal would release.
  while (await hold(acquireAll(client.lock, options.names), 0) !== "held");
}

if (import.meta.main) await main(scriptArgument());
