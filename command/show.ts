/**
 * `holdfast show`: who holds a lock, and who waits for it.
 *
 * @module
 */
import { parseArgs } from "node:util";
import type { LockHolder, LockWaiter } from "../core/contract/distributed_lock.ts";
import { UsageError } from "./arguments.ts";
import { type CommandContext, EXIT } from "./command.ts";

export const SHOW_HELP = `Usage: holdfast show [options] NAME

Prints who holds the lock NAME, and who waits for it. Exits with 0, also if the lock is free.

  --at URL   where the locks are; HOLDFAST_URL by default
  --json     prints one JSON object

Example: holdfast show --at redis://127.0.0.1 nightly-report`;

/** Runs it. Resolves with the exit code. */
export async function show(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { at: { type: "string" }, json: { type: "boolean" } },
  });
  const [name, ...others] = positionals;
  if (name === undefined || others.length > 0) throw new UsageError("show takes one name");
  const url = context.url(values.at);
  const snapshot = await context.withLocks(url, (locks) => locks.query(name));
  if (values.json) {
    const asText = (_key: string, value: unknown) => typeof value === "bigint" ? `${value}` : value;
    context.print(JSON.stringify(snapshot, asText));
    return EXIT.ok;
  }
  const { holders, waiters, waiterCount } = snapshot;
  context.print(holders.length === 0 ? "free" : "held");
  for (const holder of holders) context.print(`  holder  ${describeHolder(holder)}`);
  for (const waiter of waiters) context.print(`  waiter  ${describeWaiter(waiter)}`);
  const unseen = waiterCount - waiters.length;
  if (unseen > 0) context.print(`  and ${unseen} more`);
  return EXIT.ok;
}

function describeHolder({ label, fencingToken, remainingMs }: LockHolder): string {
  return [
    label ?? "(no label)",
    ...fencingToken === undefined ? [] : [`token ${fencingToken}`],
    ...remainingMs === undefined ? [] : [`${seconds(remainingMs)} left`],
  ].join(", ");
}

function describeWaiter({ label, waitedMs }: LockWaiter): string {
  return [
    label ?? "(no label)",
    ...waitedMs === undefined ? [] : [`has waited ${seconds(waitedMs)}`],
  ].join(", ");
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
