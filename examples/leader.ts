/**
 * A leader among several processes: start `deno run -A examples/leader.ts` as often as you like, then
 * kill the one that leads.
 *
 * The holder of the lock leads. When a leader dies, the next waiter leads: at once with file locks, after
 * the TTL or session timeout with servers. A leader that is cut off or suspended knows by its own clock
 * that it no longer leads, and its signal ends its work.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  type DistributedLock,
  type Lease,
  LeaseLostError,
  LockUnavailableError,
} from "@holdfast/lock";
import { FencedStore } from "./fenced_store.ts";
import { chooseBackend, openLock } from "./open_lock.ts";

const USAGE = `Leads, or waits for its turn. The leader keeps writing its process id to a database.
The lock is kept in files, or in the service that REDIS_URL or ZOOKEEPER_CONNECT name.

  --db FILE     where to write (in the temporary directory by default)
  --every-ms N  how often to write (200 by default)
  --help        print this text`;

/** Waits for the lock and runs `work` under it, again and again, until `stop` aborts. */
export async function leadInTurn(
  locks: DistributedLock,
  name: string,
  work: (lease: Lease, signal: AbortSignal) => Promise<void>,
  stop: AbortSignal,
): Promise<void> {
  while (!stop.aborted) {
    try {
      await using lease = await locks.acquire(name, { signal: stop, onWait: sayOnce() });
      await work(lease, AbortSignal.any([lease.signal, stop]));
    } catch (error) {
      if (stop.aborted) return;
      const isOver = error instanceof LeaseLostError || error instanceof LockUnavailableError;
      if (!isOver) throw error;
      console.log(error.message);
      await pause(1_000, undefined, { signal: stop }).catch(() => {}); // then wait for the lock again
    }
  }
}

/** Says that this process waits; the lock may call it again when it knows more. */
function sayOnce(): () => void {
  let isSaid = false;
  return () => {
    if (!isSaid) console.log("Waiting to lead");
    isSaid = true;
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      db: { type: "string", default: `${tmpdir()}/holdfast-leader.db` },
      "every-ms": { type: "string", default: "200" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return console.log(USAGE);
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(name, () => stop.abort());
  }
  using store = new FencedStore(values.db);
  await using open = await openLock(chooseBackend());
  await leadInTurn(open.locks, "leader", async (lease, signal) => {
    console.log(`Leading under token ${lease.fencingToken}`);
    while (!signal.aborted) {
      lease.throwIfLost(); // after a suspension, the signal may not have aborted yet
      if (!store.write("leader", `${Deno.pid}`, lease.fencingToken)) break; // a later leader has written
      await pause(Number(values["every-ms"]), undefined, { signal }).catch(() => {});
    }
    lease.throwIfLost(); // a later leader has written before this one knew of its loss
    signal.throwIfAborted();
  }, stop.signal);
}

if (import.meta.main) await main();
