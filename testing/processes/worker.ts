/**
 * The process behind {@linkcode startWorker}: many waiters for one lock.
 *
 * @module
 */
import { openLock } from "../conformance/open_lock.ts";
import type { DistributedLock } from "../../mod.ts";
import { pause } from "../servers/wait.ts";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import { nowUs } from "./machine_clock.ts";
import { randomOf } from "./random.ts";
import type { Grant, WorkerOptions } from "./workers.ts";

async function waiter(
  lock: DistributedLock,
  { name, aborts, holdMs, modes, isOnce }: WorkerOptions,
  random: () => number,
  isDone: () => boolean,
  report: (grant: Grant) => void,
): Promise<void> {
  for (let isServed = false; !isDone() && !(isServed && isOnce);) {
    const calledUs = nowUs();
    let queuedUs = Infinity;
    const signal = aborts && random() < 0.2 ? AbortSignal.timeout(random() * 30) : undefined;
    const onWait = () => void (queuedUs = Math.min(queuedUs, nowUs()));
    try {
      const mode = modes?.[Math.floor(random() * modes.length)];
      const lease = await lock.acquire(name, { onWait, signal, ...mode });
      isServed = true;
      const startUs = nowUs();
      if (holdMs === undefined) lease.throwIfLost();
      else await pause(holdMs);
      const nearEndUs = nowUs(); // read before the check, as the process may be suspended in between
      const endUs = lease.remainingMs > 0 ? nearEndUs : startUs;
      const token = String(lease.fencingToken);
      report({ token, mode: lease.mode, calledUs, queuedUs, held: [startUs, endUs] });
      await lease.release();
    } catch (error) {
      if (signal?.aborted !== true || error !== signal.reason) throw error;
    }
  }
}

async function main(options: WorkerOptions): Promise<void> {
  await using client = await openLock(options.spec);
  let done = false;
  const input = (async () => {
    await inputEnd();
    done = true;
  })();
  let lines: string[] = [];
  const flush = () => {
    if (lines.length > 0) print(lines.join(""));
    lines = [];
  };
  const report = (grant: Grant) => {
    if (lines.push(`${JSON.stringify(grant)}\n`) >= 20 || options.holdMs !== undefined) flush();
  };
  const random = randomOf(options.seed);
  const waiters = Array.from(
    { length: options.waiters },
    () => waiter(client.lock, options, random, () => done, report),
  );
  await Promise.all(waiters);
  flush();
  await input;
}

if (import.meta.main) await main(scriptArgument());
