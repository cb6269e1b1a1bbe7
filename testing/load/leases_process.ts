/**
 * The process behind {@linkcode runLeases}: acquires many leases, and keeps them.
 *
 * @module
 */
import type { Lease } from "../../mod.ts";
import { openLock } from "../conformance/open_lock.ts";
import { linesOf } from "../runtime/lines.ts";
import { print, scriptArgument, scriptInput } from "../runtime/processes.ts";
import type { LeasesOptions } from "./leases.ts";

/** How many calls ask at once: all at once would keep the process busy before the first renewal. */
const AT_ONCE = 1_000;

async function acquireAll(acquire: (i: number) => Promise<Lease>, count: number): Promise<Lease[]> {
  const leases: Lease[] = [];
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) leases.push(await acquire(next++));
  }));
  return leases;
}

async function main({ spec, count }: LeasesOptions): Promise<void> {
  const { lock } = await openLock(spec);
  const leases = await acquireAll((i) => lock.acquire(`name${i}`), count);
  print("ready\n");
  const commands = linesOf(scriptInput());
  for (let line = await commands.next(); line === "left"; line = await commands.next()) {
    print(`${JSON.stringify(leases.map(({ remainingMs }) => Math.round(remainingMs)))}\n`);
  }
}

if (import.meta.main) await main(scriptArgument());
