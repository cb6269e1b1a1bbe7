/**
 * A worker of the demo: adds 1 to an account that others write to as well, again and again.
 *
 * @module
 */
import { setTimeout as pause } from "node:timers/promises";
import type { DistributedLock } from "@holdfast/lock";
import { deposit, readAccount, writeAccount, writeFenced } from "./account.ts";
import { openChannel } from "./demo/channel.ts";
import { type Job, nowMs, restMs, type Say, workMs } from "./demo/job.ts";
import { openLock } from "./open_lock.ts";

const MAX_WAIT_MS = 60_000;

/** Adds 1 in every round; what was read is still true when it writes. */
export async function workUnderLock(locks: DistributedLock, job: Job, say: Say): Promise<void> {
  for (let round = 1; round <= job.rounds; round++) {
    await pause(restMs()); // what needs no lock is done without it
    const askedMs = nowMs();
    // Only a signal bounds the wait. The end of this block releases the lock, also after an error.
    await using lease = await locks.acquire("account", {
      signal: AbortSignal.timeout(MAX_WAIT_MS),
    });
    const waitedMs = nowMs() - askedMs;
    say({ event: "granted", round, token: `${lease.fencingToken}`, waitedMs, atMs: nowMs() });

    const account = await readAccount(job.accountFile);
    // Here other things happen. If the lease is lost meanwhile, its signal ends them.
    await pause(await workMs(job, account.balance), undefined, { signal: lease.signal });

    // A process can be late without a sign, so ask the clock right before the effect …
    lease.throwIfLost();
    // … and as it may stop even between these two lines, the account checks the fencing token.
    await writeFenced(job.accountFile, deposit(account, job.worker), lease.fencingToken);
    say({ event: "finished", round, atMs: nowMs() });
  }
}

/** The same without a lock: what others write between reading and writing is lost. */
export async function workWithoutLock(job: Job, say: Say): Promise<void> {
  for (let round = 1; round <= job.rounds; round++) {
    await pause(restMs());
    const account = await readAccount(job.accountFile);
    await pause(await workMs(job, account.balance));
    await writeAccount(job.accountFile, deposit(account, job.worker));
    say({ event: "finished", round, atMs: nowMs() });
  }
}

async function main(): Promise<void> {
  await using channel = await openChannel();
  const { job, backend } = channel.task;
  if (backend === null) {
    await channel.start();
    return await workWithoutLock(job, channel.say);
  }
  await using open = await openLock(backend);
  await channel.start();
  await workUnderLock(open.locks, job, channel.say);
}

if (import.meta.main) await main();
