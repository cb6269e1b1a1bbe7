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
import { openLock } from "@holdfast/lock/open";
import { lead, type LeaderChange } from "@holdfast/lock/recipes";
import { FencedStore } from "./fenced_store.ts";

const USAGE = `Leads, or waits for its turn. The leader keeps writing its process id to a database.
The locks are in files of this user, or where HOLDFAST_URL says.

  --db FILE     where to write (in the temporary directory by default)
  --every-ms N  how often to write (200 by default)
  --help        print this text`;

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
  await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:");
  const onChange = (change: LeaderChange) => {
    if (change.state === "waiting") console.log("Waiting to lead");
    if (change.state === "leading") console.log(`Leading under token ${change.lease.fencingToken}`);
    if (change.state === "lost" && !stop.signal.aborted) console.log(String(change.reason));
  };
  await lead(locks, "leader", async (lease, signal) => {
    while (!signal.aborted) {
      lease.throwIfLost(); // after a suspension, the signal may not have aborted yet
      if (!store.write("leader", `${Deno.pid}`, lease.fencingToken)) break; // a later leader has written
      await pause(Number(values["every-ms"]), undefined, { signal }).catch(() => {});
    }
    lease.throwIfLost(); // a later leader has written before this one knew of its loss
  }, { signal: stop.signal, onChange });
}

if (import.meta.main) await main();
