import { parseArgs } from "node:util";
import { isListable } from "../core/contract/call_options.ts";
import type { DistributedLock } from "../core/contract/distributed_lock.ts";
import { notSupported } from "../core/contract/options.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { asJson, describeHolder, printable } from "./snapshot.ts";

export const LIST_HELP = `Usage: holdfast list [options] [PREFIX]

Prints the locks whose names begin with PREFIX, a line for each: who holds it,
and how many wait. On Redis it walks all keys of the server, and needs the right
to SCAN.

  --at URL   where the locks are; HOLDFAST_URL by default
  --json     prints one JSON object for each lock, as show does

Example: holdfast list --at redis://127.0.0.1 nightly-`;

/** `holdfast list`: the locks, who holds each, and how many wait for it. Resolves with the exit code. */
export async function list(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { at: { type: "string" }, json: { type: "boolean" } },
  });
  const [prefix = "", ...others] = positionals;
  if (others.length > 0) throw new TypeError("list takes one prefix");
  await context.withLocks(context.url(values.at), async (locks) => {
    if (!isListable(locks)) {
      throw notSupported(
        "the locks at this URL cannot be listed: do they have an empty keyPrefix?",
      );
    }
    const seen = new Set<string>();
    for await (const name of locks.list({ prefix })) {
      if (seen.has(name)) continue;
      seen.add(name);
      context.print(await line(locks, name, values.json ?? false));
    }
  });
  return EXIT.ok;
}

/** ZooKeeper keeps only a hash of a long name, by which nobody can be asked who holds the lock. */
const HASHED = /^%sha256-[0-9a-f]{64}$/;

async function line(locks: DistributedLock, name: string, isJson: boolean): Promise<string> {
  if (HASHED.test(name)) return isJson ? JSON.stringify({ name }) : `${name}  a long name, hashed`;
  const snapshot = await locks.query(name, isJson ? {} : { maxWaiters: 0 });
  if (isJson) return asJson(snapshot);
  const { holders, holderCount, waiterCount } = snapshot;
  const [first] = holders;
  const more = holderCount > 1 ? ` and ${holderCount - 1} more` : "";
  const state = first === undefined ? "free" : `held by ${describeHolder(first)}${more}`;
  const waiting = waiterCount === 0 ? "" : `, ${waiterCount} waiting`;
  return `${printable(name)}  ${state}${waiting}`;
}
