import { parseArgs } from "node:util";
import type { LockWaiter } from "../core/contract/distributed_lock.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { asJson, describeHolder, printableLabel, seconds } from "./snapshot.ts";

export const SHOW_HELP = `Usage: holdfast show [options] NAME

Prints who holds the lock NAME, and who waits for it. Exits with 0, also if the
lock is free.

  --at URL   where the locks are; HOLDFAST_URL by default
  --json     prints one JSON object

Example: holdfast show --at redis://127.0.0.1 nightly-report`;

/** `holdfast show`: who holds a lock, and who waits for it. Resolves with the exit code. */
export async function show(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { at: { type: "string" }, json: { type: "boolean" } },
  });
  const [name, ...others] = positionals;
  if (name === undefined || others.length > 0) throw new TypeError("show takes one name");
  const url = context.url(values.at);
  const snapshot = await context.withLocks(url, (locks) => locks.query(name));
  if (values.json) {
    context.print(asJson(snapshot));
    return EXIT.ok;
  }
  const { holders, holderCount, waiters, waiterCount } = snapshot;
  context.print(holders.length === 0 ? "free" : "held");
  for (const holder of holders) context.print(`  holder  ${describeHolder(holder)}`);
  const unlisted = holderCount - holders.length;
  if (unlisted > 0) context.print(`  and ${unlisted} more holder${unlisted === 1 ? "" : "s"}`);
  for (const waiter of waiters) context.print(`  waiter  ${describeWaiter(waiter)}`);
  const unseen = waiterCount - waiters.length;
  if (unseen > 0) context.print(`  and ${unseen} more`);
  return EXIT.ok;
}

function describeWaiter({ mode, label, waitedMs }: LockWaiter): string {
  return [
    printableLabel(label),
    ...mode === "shared" ? ["shared"] : [],
    ...waitedMs === undefined ? [] : [`has waited ${seconds(waitedMs)}`],
  ].join(", ");
}
