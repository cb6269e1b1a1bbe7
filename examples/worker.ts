/**
 * A worker of the demo: repeatedly adds 1 to an account that other workers write to as well.
 *
 * @module
 */
import { setTimeout as pause } from "node:timers/promises";
import type { DistributedLock } from "@holdfast/lock";
import { openLock } from "@holdfast/lock/open";
import { deposit, readAccount, writeAccount, writeFenced } from "./account.ts";
import { openChannel } from "./demo/channel.ts";
import { type Job, nowMs, restMs, type Say, workMs } from "./demo/job.ts";

const MAX_WAIT_MS = 60_000;

/** Adds 1 in every round under the lock, so that the account does not change between read and write. */
export async function workUnderLock(locks: DistributedLock, job: Job, say: Say): Promise<void> {
  for (let round = 1; round <= job.rounds; round++) {
    await pause(restMs()); // work that needs no lock is done without it
    const askedMs = nowMs();
    // Without a time limit the call would wait forever. The end of the block releases the lock, even
    // after an error.
    await using lease = await locks.acquire("account", { waitMs: MAX_WAIT_MS });
    const waitedMs = nowMs() - askedMs;
    say({ event: "granted", round, token: `${lease.fencingToken}`, waitedMs, atMs: nowMs() });

    const account = await readAccount(job.accountFile);
    // The actual work. If the lease is lost in the meantime, its signal ends the work.
    await pause(await workMs(job, account.balance), undefined, { signal: lease.signal });

    // A process can be suspended without noticing, so check the lease right before the write …
    lease.throwIfLost();
    // … and as it can be suspended even between these two lines, the account refuses its token once a later
    // holder has written. (A database should refuse it before the later holder reads: docs/fencing.md.)
    await writeFenced(job.accountFile, deposit(account, job.worker), lease.fencingToken);
    say({ event: "finished", round, atMs: nowMs() });
  }
}

/** The same without a lock: updates by others between read and write are lost. */
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
  const { job, lockUrl } = channel.task;
  if (lockUrl === null) {
    await channel.start();
    return await workWithoutLock(job, channel.say);
  }
  await using locks = await openLock(lockUrl);
  await channel.start();
  await workUnderLock(locks, job, channel.say);
}

if (import.meta.main) await main();
